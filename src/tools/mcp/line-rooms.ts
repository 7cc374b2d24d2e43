import { getHeapStatistics } from 'node:v8';
import { type ArrivingBudget, arrivingBudget } from '../../domain/arriving-budget.ts';
import { BatonError } from '../../domain/errors.ts';
import { FREE_RESULT_BYTES } from '../../domain/tunables.ts';

/** Room for the message of one server that has not ended yet. Given back when it is disposed. */
export type LineRoom = Disposable &
  Readonly<{
    /** Says how much of the message has arrived. @throws BatonError `payload_too_large` if all together are too much */
    hold: (bytes: number) => void;
  }>;

export type LineRooms = Readonly<{
  open: () => LineRoom;
  /** Room for a whole message that waits for the room of its call. Null: too much waits, of the tenant or of all. */
  wait: (tenantId: string, bytes: number) => Disposable | null;
}>;

/**
 * Bounds what a process holds of messages of servers over stdio, in sum: those that have not ended, and those that wait.
 * One stream has the messages of all calls, so it is read on while one of them waits.
 */
export function createLineRooms({ all, tenant }: ArrivingBudget): LineRooms {
  let unfinished = 0;
  const waiting = new Map<string, number>();
  let waitingBytes = 0;
  const count = (tenantId: string, bytes: number): void => {
    const sum = (waiting.get(tenantId) ?? 0) + bytes;
    if (sum === 0) waiting.delete(tenantId);
    else waiting.set(tenantId, sum);
    waitingBytes += bytes;
  };
  return {
    open() {
      let held = 0;
      const setTo = (bytes: number): void => {
        unfinished += bytes - held;
        held = bytes;
      };
      return {
        hold(bytes) {
          const needed = bytes <= FREE_RESULT_BYTES ? 0 : bytes;
          if (needed > held && unfinished - held + needed > all) {
            setTo(0);
            throw new BatonError('payload_too_large', 'this worker had no room for a message beside those of others');
          }
          setTo(needed);
        },
        [Symbol.dispose]: () => setTo(0),
      };
    },
    wait(tenantId, bytes) {
      if (waitingBytes + bytes > all || (waiting.get(tenantId) ?? 0) + bytes > tenant) return null;
      count(tenantId, bytes);
      return { [Symbol.dispose]: () => count(tenantId, -bytes) };
    },
  };
}

/** Those of this process, because its heap is one. */
export const lineRooms = createLineRooms(arrivingBudget(getHeapStatistics().heap_size_limit));
