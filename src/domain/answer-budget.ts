import {
  ANSWERS_PER_HEAP,
  CLIENT_ANSWERS_SHARE,
  FORM_BYTES,
  MAX_ANSWERS_BYTES,
  MAX_BLOB_BYTES,
  MIN_ANSWERS_BYTES,
} from './tunables.ts';

/** Most bytes of answers that a process holds for clients that do not take them: for all, and for one client. */
export type AnswerBudget = Readonly<{ all: number; client: number }>;

export function answerBudget(heapBytes: number): AnswerBudget {
  const all = Math.min(MAX_ANSWERS_BYTES, Math.max(MIN_ANSWERS_BYTES, Math.floor(heapBytes * ANSWERS_PER_HEAP)));
  return { all, client: Math.max(Math.floor(all * CLIENT_ANSWERS_SHARE), MAX_BLOB_BYTES + FORM_BYTES) };
}
