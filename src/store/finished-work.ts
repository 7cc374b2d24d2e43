import { z } from 'zod';
import { jobPayloadSchema } from '../domain/run/job.ts';

/** What the end of a job came to. */
export const finishedWorkSchema = z.object({
  /** The planned branch that held under the lock. */
  branch: z.enum(['ifCancelled', 'ifMessagesWait', 'otherwise']),
  eventSeq: z.number().int(),
  /** To be enqueued after the commit. */
  jobs: z.array(jobPayloadSchema),
});
export type FinishedWork = z.infer<typeof finishedWorkSchema>;
