import { z } from 'zod';
import { formatId, parseId } from '../ids.ts';
import { PENDING_KINDS, type PendingKind } from './run.ts';

const fields = {
  kind: z.enum(PENDING_KINDS),
  no: z.number().int().positive(),
  dispatch: z.number().int().positive(),
};

/** What a job carries: ids and counters, never content. A job is a hint that a run may have something to do. */
export const jobPayloadSchema = z.strictObject({ runId: z.uuid(), ...fields });

export type JobPayload = z.infer<typeof jobPayloadSchema>;

/** A job as it stands in its queue, with the id of its run as the API tells it, which people look for there. */
export const queuedJobSchema = z.strictObject({
  runId: z.string().transform((id, ctx) => {
    const uuid = parseId('run', id);
    if (uuid !== null) return uuid;
    ctx.addIssue({ code: 'custom', message: 'the id of a run' });
    return z.NEVER;
  }),
  ...fields,
});

export const toQueuedJob = (job: JobPayload): z.input<typeof queuedJobSchema> => ({
  ...job,
  runId: formatId('run', job.runId),
});

/**
 * The id under which the queue knows a job. BullMQ ignores an id that exists in any state, so every (re)queue of the
 * same work raises `dispatch`. No `:`, which BullMQ keeps for itself.
 */
export function jobIdOf(job: JobPayload): string {
  return `${formatId('run', job.runId)}-${job.kind}-${job.no}-${job.dispatch}`;
}

export const QUEUE_NAMES: Readonly<Record<PendingKind, string>> = {
  step: 'steps',
  compaction: 'compactions',
  prune: 'prunes',
};
