import type { NewEvent } from '../domain/run/events.ts';
import type { Db } from '../store/db/database.ts';
import { isRolledBack } from '../store/db/store-unavailable.ts';
import type { Fence } from '../store/work/claims.ts';
import {
  type FinishedStep,
  finishStep,
  finishWrite,
  type ResponseWrite,
  responseWrite,
  type StepFinish,
  type StepWrite,
  type WrittenResponse,
  writeSteps,
} from '../store/work/step-writes.ts';
import { createWriteGroup } from './write-group.ts';

/** Writes responses and ends of steps. Null: fenced. */
export type StepWriter = Readonly<{
  respond: (fence: Fence, response: ResponseWrite, events: readonly NewEvent[]) => Promise<WrittenResponse | null>;
  finish: (fence: Fence, finish: StepFinish) => Promise<FinishedStep | null>;
}>;

/**
 * A larger transaction would keep the first of its sessions locked too long. While Postgres writes one group the worker
 * fills the next: with a single one each of them waited for the other a third of the time.
 */
const MOST = { items: 16, groups: 2 };

type Written = Readonly<{ answer: Promise<unknown> }>;

/**
 * Writes of several sessions that come while Postgres is busy with others share a transaction: under load that costs
 * far less than one for each. If a group fails, each of its writes is repeated alone, and no later group waits for
 * them.
 */
export function createStepWriter(db: Db): StepWriter {
  const written = createWriteGroup(async (writes: readonly StepWrite<unknown>[]): Promise<readonly Written[]> => {
    try {
      const answers = await writeSteps(db, writes);
      return writes.map(({ parse }, at) => ({ answer: settled(async () => parse(answers[at] ?? null)) }));
    } catch (error) {
      // If the group may have been committed, the caller decides whether to write again.
      const again = isRolledBack(error);
      return writes.map(({ alone }) => ({ answer: settled(again ? alone : () => Promise.reject(error)) }));
    }
  }, MOST);
  const write = async <T>(one: StepWrite<T>): Promise<T> => (await (await written(one)).answer) as T;
  return {
    respond: (fence, response, events) => write(responseWrite(db, fence, response, events)),
    finish(fence, finish) {
      const one = finishWrite(db, fence, finish);
      return one === null ? finishStep(db, fence, finish) : write(one);
    },
  };
}

/** A rejection counts as handled: the caller awaits it a moment later. */
function settled<T>(work: () => Promise<T>): Promise<T> {
  const answer = work();
  answer.catch(() => undefined);
  return answer;
}
