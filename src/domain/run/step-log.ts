import type { z } from 'zod';
import type { ErrorRecord } from '../errors.ts';
import type { FinishReason } from '../transcript/message.ts';
import type { ToolCallState } from '../transcript/tool-call.ts';
import type { Usage } from '../usage.ts';
import { EVENT_SCHEMAS } from './events.ts';
import { isTerminalRun, type RunStatus } from './run.ts';

/** An assistant's message: one attempt at a step. */
export type LoggedMessage = Readonly<{
  id: string;
  seq: number;
  step: number;
  attempt: number;
  startedAt: Date;
  /** When its response was stored. Null: it is open. */
  finishedAt: Date | null;
  superseded: boolean;
  model: string | null;
  finishReason: FinishReason | null;
  usage: Usage | null;
  error: ErrorRecord | null;
}>;

export type LoggedCall = Readonly<{
  messageId: string;
  index: number;
  toolName: string;
  state: ToolCallState;
  startedAt: Date | null;
  finishedAt: Date | null;
  /** The output was cut on arrival. */
  truncated: boolean;
}>;

export type LoggedEvent = Readonly<{ type: string; createdAt: Date; data: Readonly<Record<string, unknown>> }>;

type LoggedCompaction = Readonly<{
  round: number;
  strategy: string;
  reason: string;
  state: string;
  tokensBefore: number;
  tokensAfter: number | null;
  costUsd: number | null;
  error: ErrorRecord | null;
  startedAt: Date;
  finishedAt: Date | null;
  /** How its requests were changed after a refusal of their form. */
  adapted: string | null;
}>;

export const STEP_STATES = ['running', 'waiting', 'completed', 'retried', 'superseded', 'cancelled', 'failed'] as const;
type StepState = (typeof STEP_STATES)[number];

/** The cause for which the provider read less from its cache than it had of the step before. */
export const CACHE_BREAKS = ['compaction', 'prune', 'agent', 'tools', 'unexplained'] as const;
type CacheBreak = (typeof CACHE_BREAKS)[number];

export type StepRow = Readonly<{
  kind: 'step';
  step: number;
  attempt: number;
  /** UUID. */
  messageId: string;
  seq: number;
  state: StepState;
  /** When its work became due. Null: its events were trimmed. */
  queuedAt: Date | null;
  startedAt: Date;
  finishedAt: Date | null;
  waitedMs: number | null;
  claimMs: number | null;
  viewMs: number | null;
  firstTokenMs: number | null;
  streamMs: number | null;
  commitMs: number | null;
  /** The worker that began it, and the one that ended it in its place. */
  workers: readonly string[];
  model: string | null;
  finishReason: FinishReason | null;
  usage: Usage | null;
  costUsd: number | null;
  context: StepContextSize | null;
  cachedShare: number | null;
  cacheBreak: CacheBreak | null;
  tools: readonly LoggedCall[];
  error: ErrorRecord | null;
  nextAttemptAt: string | null;
}>;

/** The request as the context meter measured it. */
type StepContextSize = Readonly<{ usedTokens: number; usableTokens: number }>;

export type PruneRow = Readonly<{
  kind: 'prune';
  prunedCount: number;
  savedTokens: number;
  prunedTools: readonly string[];
  at: Date;
}>;
export type CompactionRow = Readonly<{ kind: 'compaction' }> & LoggedCompaction;
export type StepLogRow = StepRow | CompactionRow | PruneRow;

export type StepLogInput = Readonly<{
  runStatus: RunStatus;
  /** In the order of the transcript. */
  messages: readonly LoggedMessage[];
  calls: readonly LoggedCall[];
  /** Of the run, and of the session between its steps, in order. */
  events: readonly LoggedEvent[];
  compactions: readonly LoggedCompaction[];
  publicIdOf: (messageId: string) => string;
}>;

/** The rows of a run's waterfall, in the order in which they happened. */
export function foldSteps(input: StepLogInput): StepLogRow[] {
  const byMessage = Map.groupBy(input.calls, ({ messageId }) => messageId);
  const seen = readEvents(input.events);
  const changes = [...seen.changes, ...input.compactions.map(toChange)];
  const steps: StepRow[] = [];
  for (const message of input.messages) {
    const calls = (byMessage.get(message.id) ?? []).toSorted((a, b) => a.index - b.index);
    const row = toRow(message, calls, seen, input);
    const before = steps.findLast(({ usage }) => usage !== null);
    steps.push({ ...row, cacheBreak: whyBroken(before, row, changes) });
  }
  const compactions = input.compactions.map((compaction): CompactionRow => ({ kind: 'compaction', ...compaction }));
  return [...steps, ...compactions, ...seen.prunes].toSorted((a, b) => timeOf(a) - timeOf(b));
}

const timeOf = (row: StepLogRow): number => (row.kind === 'prune' ? row.at : row.startedAt).getTime();

type Change = Readonly<{ cause: CacheBreak; at: Date }>;

const toChange = ({ startedAt, finishedAt }: LoggedCompaction): Change => ({
  cause: 'compaction',
  at: finishedAt ?? startedAt,
});

type Data<Type extends keyof typeof EVENT_SCHEMAS> = z.infer<(typeof EVENT_SCHEMAS)[Type]>;
type Timed<Type extends keyof typeof EVENT_SCHEMAS> = Readonly<{ at: Date; data: Data<Type> }>;

type Seen = Readonly<{
  started: Map<string, Timed<'step:started'>>;
  answered: Map<string, Timed<'llm:response'>>;
  completed: Map<string, Timed<'step:completed'>>;
  reset: Map<string, Date>;
  /** By step and attempt. */
  retrying: Map<string, Timed<'step:retrying'>>;
  prunes: PruneRow[];
  changes: Change[];
}>;

const attemptKey = (step: number, attempt: number): string => `${step}.${attempt}`;

/** Events that are unknown, or of another version, are skipped. */
function readEvents(events: readonly LoggedEvent[]): Seen {
  const seen: Seen = {
    started: new Map(),
    answered: new Map(),
    completed: new Map(),
    reset: new Map(),
    retrying: new Map(),
    prunes: [],
    changes: [],
  };
  for (const { type, createdAt: at, data } of events) readEvent(seen, type, at, data);
  return seen;
}

function readEvent(seen: Seen, type: string, at: Date, data: unknown): void {
  const read = <Type extends keyof typeof EVENT_SCHEMAS>(name: Type): Data<Type> | undefined =>
    type === name ? (EVENT_SCHEMAS[name].safeParse(data).data as Data<Type> | undefined) : undefined;
  const started = read('step:started');
  if (started !== undefined) seen.started.set(started.messageId, { at, data: started });
  const answered = read('llm:response');
  if (answered !== undefined) seen.answered.set(answered.messageId, { at, data: answered });
  const completed = read('step:completed');
  if (completed !== undefined) seen.completed.set(completed.messageId, { at, data: completed });
  const reset = read('step:reset');
  if (reset !== undefined) seen.reset.set(reset.messageId, at);
  const retrying = read('step:retrying');
  if (retrying !== undefined) seen.retrying.set(attemptKey(retrying.step, retrying.attempt), { at, data: retrying });
  const pruned = read('prune:complete');
  if (pruned !== undefined) {
    seen.prunes.push({ kind: 'prune', ...pruned, at });
    seen.changes.push({ cause: 'prune', at });
  }
  if (type === 'llm:switched') seen.changes.push({ cause: 'agent', at });
  if (type === 'tools:pinned') seen.changes.push({ cause: 'tools', at });
}

function toRow(
  message: LoggedMessage,
  tools: readonly LoggedCall[],
  seen: Seen,
  { runStatus, publicIdOf }: StepLogInput,
): Omit<StepRow, 'cacheBreak'> {
  const id = publicIdOf(message.id);
  const started = seen.started.get(id);
  const answered = seen.answered.get(id)?.data;
  const completed = seen.completed.get(id);
  const retrying = seen.retrying.get(attemptKey(message.step, message.attempt));
  const isRetried = retrying !== undefined && message.superseded && message.error !== null;
  const state = stateOf(message, runStatus, { isCompleted: completed !== undefined, isRetried, tools });
  const finishedAt = completed?.at ?? (state === 'waiting' || state === 'running' ? null : endOf(message, seen, id));
  const startedAt = started?.at ?? message.startedAt;
  const waitedMs = started?.data.waitedMs ?? null;
  const timing = answered?.timing;
  const { usage } = message;
  return {
    kind: 'step',
    step: message.step,
    attempt: message.attempt,
    messageId: message.id,
    seq: message.seq,
    state,
    queuedAt: waitedMs === null ? null : new Date(startedAt.getTime() - waitedMs),
    startedAt,
    finishedAt,
    waitedMs,
    claimMs: timing?.claimMs ?? null,
    viewMs: timing?.viewMs ?? null,
    firstTokenMs: timing?.firstTokenMs ?? null,
    streamMs: timing?.streamMs ?? null,
    commitMs: completed === undefined ? null : commitMs(message, tools, completed.at),
    workers: [...new Set([started?.data.workerId, answered?.workerId, completed?.data.workerId])].filter(
      (worker) => worker !== undefined,
    ),
    model: message.model,
    finishReason: message.finishReason,
    usage,
    costUsd: answered?.costUsd ?? null,
    context: answered?.context ?? null,
    cachedShare: usage === null || usage.inputTokens === 0 ? null : usage.cacheReadTokens / usage.inputTokens,
    tools,
    error: message.error,
    nextAttemptAt: isRetried ? retrying.data.nextAttemptAt : null,
  };
}

function stateOf(
  { superseded, finishedAt, finishReason, error }: LoggedMessage,
  runStatus: RunStatus,
  {
    isCompleted,
    isRetried,
    tools,
  }: Readonly<{ isCompleted: boolean; isRetried: boolean; tools: readonly LoggedCall[] }>,
): StepState {
  if (isRetried) return 'retried';
  if (superseded) return 'superseded';
  if (isCompleted) return 'completed';
  if (finishReason === 'aborted') return 'cancelled';
  if (error !== null) return 'failed';
  if (!isTerminalRun(runStatus)) {
    if (tools.some(({ state }) => state === 'awaiting_approval' || state === 'awaiting_output')) return 'waiting';
    if (finishedAt === null || tools.some(({ finishedAt: end }) => end === null)) return 'running';
    return runStatus === 'requires_action' ? 'waiting' : 'running';
  }
  if (finishedAt === null) return runStatus === 'failed' ? 'failed' : 'cancelled';
  return runStatus === 'failed' || runStatus === 'cancelled' ? runStatus : 'completed';
}

const endOf = ({ finishedAt }: LoggedMessage, { reset }: Seen, id: string): Date | null =>
  finishedAt ?? reset.get(id) ?? null;

/** From the last outcome, or else the stored response, to the end of the step. */
function commitMs({ finishedAt }: LoggedMessage, tools: readonly LoggedCall[], endedAt: Date): number {
  const ends = [finishedAt, ...tools.map((call) => call.finishedAt)].flatMap((end) => end ?? []);
  const last = Math.max(...ends.map((end) => end.getTime()));
  return Number.isFinite(last) ? Math.max(0, endedAt.getTime() - last) : 0;
}

/** Less than this share of the tokens that were cached before is a break: blocks of a cache end anywhere. */
const KEPT_SHARE = 0.5;

/** Null: the cache held, there was none, or it is not known. */
function whyBroken(
  before: StepRow | undefined,
  row: Omit<StepRow, 'cacheBreak'>,
  changes: readonly Change[],
): CacheBreak | null {
  if (before === undefined || before.usage === null || row.usage === null) return null;
  const cached = before.usage.cacheReadTokens + before.usage.cacheWriteTokens;
  if (cached === 0 || row.usage.cacheReadTokens >= KEPT_SHARE * cached) return null;
  const between = changes.filter(({ at }) => at >= before.startedAt && at <= row.startedAt);
  if (before.model !== row.model) return 'agent';
  return CACHE_BREAKS.find((cause) => between.some((change) => change.cause === cause)) ?? 'unexplained';
}
