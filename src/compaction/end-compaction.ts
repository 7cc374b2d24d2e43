import { enqueueNext } from '../claims/enqueue-next.ts';
import { finishClaim } from '../claims/finish-claim.ts';
import { durationMs, type JobScope, logFields } from '../claims/job-scope.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { planAfterMaintenance } from '../domain/run/after-maintenance.ts';
import type { NewEvent } from '../domain/run/events.ts';
import { exhaustedPlan, type Postponement } from '../domain/run/next-step.ts';
import { NO_USAGE } from '../domain/usage.ts';
import { findOpenCompaction, roundLeftOpen } from '../store/transcript/compactions.ts';
import {
  type CompactionEnd,
  finishMaintenance,
  type MaintenanceFinish,
  type NewMark,
} from '../store/work/maintenance.ts';
import type { CompactionDeps, Spent } from './work.ts';

type FailedEnd = Extract<CompactionEnd, { state: 'failed' | 'rejected' }>;

/** Tokens of the view, and the number of messages that the summary replaces. */
type RoundSizes = Readonly<{
  round: number;
  tokensBefore: number;
  tokensAfter?: number;
  messages?: number;
}>;

export type CompactionEnding = Readonly<{
  contextState: ContextState;
  events: readonly NewEvent[];
  marks?: readonly NewMark[];
  /** Null: no round was begun. */
  compaction: CompactionEnd | null;
  /** For the log. */
  sizes?: RoundSizes;
  /** Set if nothing can make the view fit: the run ends with this error. */
  exhausted?: ErrorRecord;
  /** Set if the summarizer may not be asked now: the same compaction runs later. */
  postponed?: Postponement;
}>;

/** Ends the job in one fenced transaction, closes a round that a dead worker left open, and enqueues next. */
export async function endCompaction(deps: CompactionDeps, scope: JobScope, ending: CompactionEnding): Promise<void> {
  const open = ending.compaction === null ? await leftOpen(deps, scope) : null;
  const compaction = ending.compaction ?? open;
  const next =
    ending.exhausted === undefined
      ? planAfterMaintenance({
          runId: scope.runId,
          runKind: scope.runKind,
          stepNo: scope.stepNo,
          goesOnWith: 'step',
          ...(ending.postponed !== undefined && { postponed: ending.postponed }),
        })
      : exhaustedPlan(formatId('run', scope.runId), ending.exhausted, scope.finalAnswerFor);
  const usage = compaction?.usage ?? NO_USAGE;
  const finish: MaintenanceFinish = {
    marks: ending.marks ?? [],
    ...(compaction !== null && { compaction }),
    contextState: ending.contextState,
    usage,
    costUsd: compaction?.costUsd ?? 0,
    events: [...(open === null ? [] : [roundLeftOpen(open.error)]), ...ending.events],
    next,
    nextRunId: deps.newId(),
  };
  scope.held.lettingGo();
  const finished = await finishClaim(deps, scope, () => finishMaintenance(deps.db, scope.fence, finish));
  if (!(await enqueueNext(deps, scope, { finished, next }, usage))) return;
  const outcome = compaction?.state ?? outcomeWithoutRound(ending);
  const { attempts = 0, strategy } = compaction ?? {};
  deps.log(outcome === 'failed' || outcome === 'rejected' || outcome === 'exhausted' ? 'warn' : 'info', {
    event: 'compaction_finished',
    ...logFields(scope),
    outcome,
    calls: attempts,
    durationMs: durationMs(scope),
    ...(strategy !== undefined && { strategy }),
    ...ending.sizes,
    ...(compaction !== null && compaction.state !== 'completed' && compaction.error),
  });
}

function outcomeWithoutRound({ exhausted, postponed }: CompactionEnding): string {
  if (postponed !== undefined) return 'postponed';
  return exhausted === undefined ? 'nothing' : 'exhausted';
}

async function leftOpen(deps: CompactionDeps, scope: JobScope): Promise<FailedEnd | null> {
  const id = await findOpenCompaction(deps.db, scope.sessionId);
  if (id === null) return null;
  const error = { code: 'internal', message: 'The worker died while it compacted.' } as const;
  return { id, state: 'failed', attempts: 0, costUsd: 0, usage: NO_USAGE, error };
}

export function failedRound({
  id,
  state,
  spent,
  error,
  strategy,
  tokensAfter,
}: Readonly<{
  id: string;
  state: 'rejected' | 'failed';
  spent: Spent;
  error: ErrorRecord;
  strategy: string;
  tokensAfter?: number | undefined;
}>): CompactionEnd {
  const { calls: attempts, usage, costUsd } = spent;
  return { id, state, attempts, usage, costUsd, error, strategy, ...(tokensAfter !== undefined && { tokensAfter }) };
}
