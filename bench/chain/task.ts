import { z } from 'zod';

export const DELTAS_PER_STEP = 20;

/** The work of a session. The model reads it in the first message. */
const taskSchema = z.object({
  steps: z.number().int().positive(),
  /** Tool calls of each step but the last. */
  calls: z.number().int().default(1),
  /** Characters of each call's output. */
  outputChars: z.number().int().default(200),
  deltas: z.number().int().default(DELTAS_PER_STEP),
  /** Milliseconds before an answer, and between two of its deltas. */
  thinkMs: z.number().default(0),
  deltaPauseMs: z.number().default(0),
});

export type Task = z.infer<typeof taskSchema>;
export type TaskInput = z.input<typeof taskSchema>;

export const taskText = (task: TaskInput): string => `Work: ${JSON.stringify(task)}`;

/** @throws if the text contains no task */
export function readTask(text: string): Task {
  const [, json = ''] = /Work: (\{.*\})$/s.exec(text) ?? [];
  return taskSchema.parse(JSON.parse(json));
}

const WORDS =
  'lease claim epoch fence drain inbox view prune batch token claimRun( ) => { } const await if (row) src/ .ts 404 ok';

/** Text of this length that compresses as source code does. */
export function textOf(chars: number): string {
  const words = WORDS.split(' ');
  let text = '';
  for (let state = chars + 1; text.length < chars; ) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    text += `${words[(state >>> 16) % words.length]}${(state >>> 8) % 100} `;
  }
  return text.slice(0, chars);
}
