import type { JobDeps } from '../claims/job-deps.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import type { Json } from '../domain/transcript/message.ts';
import { noteOutsideWork } from '../store/work/outside-work.ts';
import type { OutsideWork } from '../tools/tool.ts';

/** Keeps what a call begins elsewhere beside the call, so that the next worker finds it. */
export function outsideWorkOf(
  { db }: JobDeps,
  { fence, held }: JobScope,
  place: Readonly<{ messageId: string; index: number }>,
  earlier: Json | null,
): OutsideWork {
  return {
    earlier,
    note: (work) => retryWhileStoreUnavailable(held, () => noteOutsideWork(db, fence, place, work)),
    isHandedOver: () => held.stopped() === 'shutdown' || held.stopped() === 'lost',
  };
}
