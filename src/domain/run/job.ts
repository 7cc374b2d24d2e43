import { z } from 'zod';
import { formatId, parseId } from '../ids.ts';
import { PENDING_KINDS } from './run.ts';

const fields = {
  kind: z.enum(PENDING_KINDS),
  no: z.number().int().positive(),
  dispatch: z.number().int().positive(),
};

/** A job has ids and counters, never content: it is a hint that a run may have pending work. */
export const jobPayloadSchema = z.strictObject({ runId: z.uuid(), ...fields });

export type JobPayload = z.infer<typeof jobPayloadSchema>;

/** A job as it stands in its queue. The id of the run has the form of the API, because people look for it there. */
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

/** BullMQ ignores an id that it knows in any state, so work that is queued again raises `dispatch`. It reserves `:`. */
export function jobIdOf(job: JobPayload): string {
  return `${formatId('run', job.runId)}-${job.kind}-${job.no}-${job.dispatch}`;
}

/** The kinds of jobs that workers take: pending work of runs, and deliveries to webhooks. */
export const JOB_KINDS = [...PENDING_KINDS, 'delivery'] as const;
export type JobKind = (typeof JOB_KINDS)[number];

export const QUEUE_NAMES: Readonly<Record<JobKind, string>> = {
  step: 'steps',
  compaction: 'compactions',
  prune: 'prunes',
  delivery: 'deliveries',
};
