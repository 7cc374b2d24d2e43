import type { JobDeps } from '../claims/job-deps.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import type { Json } from '../domain/transcript/message.ts';
import { noteOutsideWork } from '../store/work/outside-work.ts';
import type { OutsideWork } from '../tools/tool.ts';

export type BegunElsewhere = Readonly<{
  /** What an earlier worker has begun; null: nothing. */
  earlier: Json | null;
  /** Hears of what this call begins. */
  began: (work: Json) => void;
}>;

/** Keeps what a call begins elsewhere beside the call, so that the next worker finds it. */
export function outsideWorkOf(
  { db }: JobDeps,
  { fence, held }: JobScope,
  place: Readonly<{ messageId: string; index: number }>,
  { earlier, began }: BegunElsewhere,
): OutsideWork {
  return {
    earlier,
    note(work) {
      began(work);
      return retryWhileStoreUnavailable(held, () => noteOutsideWork(db, fence, place, work));
    },
    isHandedOver: () => held.stopped() === 'shutdown' || held.stopped() === 'lost',
  };
}
