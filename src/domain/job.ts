import { z } from 'zod';
import { PENDING_KINDS, type PendingKind } from './run.ts';

/** What a job carries: ids and counters, never content. A job is a hint that a run may have something to do. */
export const jobPayloadSchema = z.strictObject({
  runId: z.uuid(),
  kind: z.enum(PENDING_KINDS),
  no: z.number().int().positive(),
  dispatch: z.number().int().positive(),
});

export type JobPayload = z.infer<typeof jobPayloadSchema>;

/**
 * The id under which the queue knows a job. BullMQ ignores an id that exists in any state, so every (re)queue of the
 * same work raises `dispatch`. No `:`, which BullMQ keeps for itself.
 */
export function jobIdOf(job: JobPayload): string {
  return `${job.runId}-${job.kind}-${job.no}-${job.dispatch}`;
}

export const QUEUE_NAMES: Readonly<Record<PendingKind, string>> = {
  step: 'steps',
  compaction: 'compactions',
  prune: 'prunes',
};
