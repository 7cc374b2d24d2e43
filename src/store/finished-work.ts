import { z } from 'zod';
import { jobPayloadSchema } from '../domain/run/job.ts';

export const finishedWorkSchema = z.object({
  /** The branch of the plan that the transaction took. */
  branch: z.enum(['ifCancelled', 'ifMessagesWait', 'otherwise']),
  eventSeq: z.number().int(),
  /** To enqueue after the commit. */
  jobs: z.array(jobPayloadSchema),
});
export type FinishedWork = z.infer<typeof finishedWorkSchema>;
