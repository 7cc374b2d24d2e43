import type { JobPayload } from '../../../src/domain/run/job.ts';
import type { PendingKind } from '../../../src/domain/run/run.ts';

/** A worker's record of a claim that it was granted. It may have lost the claim since. */
export type Hand = Readonly<{
  job: JobPayload;
  claimId: string;
  epoch: number;
  /** The id for the message that the claim opens. */
  messageId: string;
  /** The message that the worker works on: its own, or that of an interrupted step. Null: none. */
  openId: string | null;
}>;

/** The end of a step by a worker. `tools`: the run goes on. `compact`: the run goes on after a compaction. */
export type Ending = 'answer' | 'tools' | 'compact' | 'retry' | 'overflow' | 'error' | 'limit' | 'ask' | 'abort';

/** A move of one call: it starts, it completes, its outcome is unknown, it is not run. */
export type CallMoveName = 'start' | 'complete' | 'give up' | 'refuse';

/** One call of a function of the store, by a client, a worker or a reconciler. */
export type Act =
  | Readonly<{ act: 'send'; delivery: 'steer' | 'followup' | 'interrupt'; messageId: string; runId: string }>
  | Readonly<{ act: 'cancel'; runId: string }>
  | Readonly<{ act: 'resume'; runId: string }>
  | Readonly<{ act: 'retry-failed'; runId: string }>
  | Readonly<{ act: 'request'; kind: Exclude<PendingKind, 'step'>; runId: string }>
  | Readonly<{ act: 'approve'; runId: string; messageId: string; index: number }>
  | Readonly<{ act: 'claim'; job: JobPayload; claimId: string; messageId: string }>
  | Readonly<{ act: 'beat'; hand: Hand }>
  | Readonly<{ act: 'restart'; hand: Hand }>
  | Readonly<{ act: 'respond'; hand: Hand; calls: number }>
  | Readonly<{ act: 'move'; hand: Hand; index: number; move: CallMoveName }>
  | Readonly<{ act: 'note'; hand: Hand; index: number }>
  | Readonly<{
      act: 'finish';
      hand: Hand;
      ending: Ending;
      last: number | null;
      asked: readonly number[];
      nextRunId: string;
      isWritten: boolean;
      /** The claim and the message with which the worker goes on, if the run does. Null: it takes the next job. */
      carry: Readonly<{ claimId: string; messageId: string }> | null;
    }>
  | Readonly<{ act: 'finish-maintenance'; hand: Hand; runKind: 'task' | 'maintenance'; nextRunId: string }>
  | Readonly<{ act: 'hand-back'; hand: Hand }>
  | Readonly<{ act: 'fail'; hand: Hand }>
  | Readonly<{ act: 'recover'; runId: string }>
  | Readonly<{ act: 'redispatch'; job: JobPayload }>;

/** The part of the store's answer that the protocol defines. */
export type Answer = Readonly<Record<string, unknown>>;

export const CALL_MOVES: Readonly<
  Record<
    CallMoveName,
    Readonly<{ from: readonly ('pending' | 'running' | 'unknown')[]; to: 'running' | 'completed' | 'error' }>
  >
> = {
  start: { from: ['pending'], to: 'running' },
  complete: { from: ['running'], to: 'completed' },
  'give up': { from: ['running', 'unknown'], to: 'error' },
  refuse: { from: ['pending'], to: 'error' },
};
