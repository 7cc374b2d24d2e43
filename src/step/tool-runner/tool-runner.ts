import type { JobScope } from '../../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../../claims/retry-while-store-unavailable.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatCallId } from '../../domain/ids.ts';
import { callResultEvent } from '../../domain/run/call-events.ts';
import { CANCELLED_BEFORE_START, type GivenCall } from '../../domain/run/settlement.ts';
import type { CallQuestion } from '../../domain/transcript/call-question.ts';
import type { Json, Part, ToolOutput } from '../../domain/transcript/message.ts';
import {
  type CallOutcome,
  type CallRequiringAction,
  outcomeOf,
  type PlacedCall,
  UNFINISHED,
  UNKNOWN_OUTCOME,
  WAITING_STATES,
} from '../../domain/transcript/required-action.ts';
import type { ToolCallState } from '../../domain/transcript/tool-call.ts';
import { inToolSpan } from '../../model/model-span.ts';
import { arrivingBytes, type TakeRoom } from '../../platform/arriving-bytes.ts';
import { keepOutputFiles } from '../../store/transcript/media.ts';
import type { CallMove } from '../../store/work/step-writes.ts';
import type { ToolReply } from '../../tools/input-needed.ts';
import { sanitizeOutput } from '../../tools/sanitize-output.ts';
import { isServerTool, type ServerTool, type Tool } from '../../tools/tool.ts';
import type { StepDeps } from '../deps.ts';
import type { BegunElsewhere } from '../outside-work.ts';
import { type CallWrites, createCallWrites } from './call-writes.ts';
import { type CallAsks, executeCall } from './execute-call.ts';
import { createOutputLimiter, type OutputLimiter, type OutputLimits } from './output-limiter.ts';

export type ToolRunner = Readonly<{
  /** Sets the parts of the message before any call runs: their results share one budget. */
  expect: (parts: readonly Part[]) => void;
  /** Sets the calls that were committed as `running` with their response, by index. */
  started: (indices: ReadonlySet<number>) => void;
  /** Sets what earlier workers have begun elsewhere for the calls, by index. */
  begunElsewhere: (works: ReadonlyMap<number, Json>) => void;
  /** Sets what tools have asked in their calls, and the answers, by index. */
  replied: (replies: ReadonlyMap<number, ToolReply>) => void;
  /** Runs one call and commits its outcome. @throws BatonError `fenced`, and database errors */
  run: (call: PlacedCall) => Promise<unknown>;
  /** Whether one of the calls has begun work elsewhere that its tool can stop. */
  hasWorkOutside: (calls: readonly PlacedCall[]) => boolean;
  /** Stops what the calls have begun elsewhere. */
  stopElsewhere: (calls: readonly PlacedCall[]) => Promise<void>;
  /** Settles a call without running it, and stops what it has begun elsewhere. The model reads the reason. */
  settle: (call: PlacedCall, from: ToolCallState, reason: string) => Promise<void>;
  /** Settles a call with the client's output. */
  give: (call: GivenCall) => Promise<void>;
  /** Records that the call may or may not have taken effect. */
  markUnknown: (call: PlacedCall) => Promise<void>;
  /**
   * Resolves when every begun call has its outcome; a result that comes after an abort is kept. Calls that were marked
   * `running` but not begun are `pending` again, unless the run is lost.
   * @throws the error that prevented the commit of an outcome
   */
  allSettled: () => Promise<void>;
  /** Like `allSettled`, but the newest outcome may be uncommitted: see `withLast`. */
  allDone: () => Promise<void>;
  /** Passes the uncommitted outcome to `endsWith`, which commits it. If that throws, the outcome is kept. */
  withLast: <T>(endsWith: (moves: readonly CallMove[]) => Promise<T>) => Promise<T>;
  /** Commits that outcome if the step did not end. */
  keepLast: () => Promise<void>;
  /** The calls whose tools have asked a person for more. They have no outcome yet. */
  asking: () => readonly CallRequiringAction[];
  /** True: this runner knows the call's outcome. */
  hasSettled: (index: number) => boolean;
  /** The outcome of the call, as the view shows it. */
  outcomeOf: (index: number) => CallOutcome | undefined;
}>;

/**
 * Runs the calls of one message. Only the holder of the run commits `running` before the side effect and the result
 * after it.
 * - The last result is committed with the end of the step.
 * - A result too large for the view shows head and tail; the whole is committed with it as a blob.
 */
export function createToolRunner(
  deps: StepDeps,
  scope: JobScope,
  { messageId, tools, limits }: RunnerInput,
): ToolRunner {
  const limiter = createOutputLimiter(deps, { sessionId: scope.sessionId, messageId }, limits);
  const writes = createCallWrites(deps, scope);
  const calls: Calls = {
    deps,
    scope,
    messageId,
    tools,
    limiter,
    writes,
    running: new Set(),
    outcomes: new Map(),
    started: new Set(),
    elsewhere: new Map(),
    replies: new Map(),
    asking: new Map(),
    failures: [],
  };
  return {
    expect: (parts) => limiter.expect(parts),
    started(indices) {
      for (const index of indices) calls.started.add(index);
    },
    begunElsewhere(works) {
      for (const [index, work] of works) calls.elsewhere.set(index, work);
    },
    replied(replies) {
      for (const [index, reply] of replies) calls.replies.set(index, reply);
    },
    run(call) {
      // The step goes on, so its end does not follow yet: commit the held outcome now.
      const committed = writes.commitHeld();
      const promise = bothDone(runCall(calls, call), committed);
      const settled = promise.catch((error: unknown) => calls.failures.push(error));
      calls.running.add(settled);
      void settled.finally(() => calls.running.delete(settled));
      return promise;
    },
    hasWorkOutside: (open) =>
      open.some(({ index, part }) => calls.elsewhere.has(index) && tools.get(part.toolName)?.resumes !== undefined),
    async stopElsewhere(open) {
      await Promise.all(open.map((call) => stopElsewhere(calls, call)));
    },
    async settle(call, from, reason) {
      await refuse(calls, call, from, reason);
    },
    async give(call) {
      const { state, output } = outcomeOf(call.answer);
      await finish(calls, call, call.part.state, { state, output: sanitizeOutput(output) });
    },
    async markUnknown({ index }) {
      await writes.commit({ messageId, index, from: ['running'], to: 'unknown', forgetsAnswer: true, events: [] });
    },
    allDone: () => allDone(calls),
    async allSettled() {
      await allDone(calls);
      await writes.commitHeld();
    },
    withLast: writes.withHeld,
    keepLast: writes.commitHeld,
    asking: () => [...calls.asking.values()],
    hasSettled: (index) => calls.outcomes.has(index),
    outcomeOf: (index) => calls.outcomes.get(index),
  };
}

type RunnerInput = Readonly<{ messageId: string; tools: ReadonlyMap<string, Tool>; limits: OutputLimits }>;

/** The calls of one message, by their index. */
type Calls = Omit<RunnerInput, 'limits'> &
  Readonly<{
    deps: StepDeps;
    scope: JobScope;
    limiter: OutputLimiter;
    writes: CallWrites;
    running: Set<Promise<unknown>>;
    outcomes: Map<number, CallOutcome>;
    /** `running` in the database, but not begun. */
    started: Set<number>;
    /** Work that the calls have begun elsewhere, for this worker or an earlier one. */
    elsewhere: Map<number, Json>;
    replies: Map<number, ToolReply>;
    asking: Map<number, CallRequiringAction>;
    failures: unknown[];
  }>;

/** Runs a call and commits its outcome, or what its tool asks. @throws BatonError `fenced`, and database errors */
async function runCall(calls: Calls, call: PlacedCall): Promise<ToolOutput | null> {
  const { scope, tools } = calls;
  const open: ToolCallState = call.part.state === 'pending' ? 'pending' : 'unknown';
  const allowed = calls.started.has(call.index) ? 'yes' : await mayStart(scope);
  if (allowed === 'cancelled') return cancel(calls, call, open);
  if (allowed === 'no') throw new BatonError('fenced', 'the step was stopped before the call');
  const tool = tools.get(call.part.toolName);
  if (!isServerTool(tool)) return refuse(calls, call, open, `There is no tool named ${call.part.toolName}.`);
  const beginning = tool.readOnly === true ? 'begun' : await begin(calls, call, open);
  if (beginning !== 'begun') return beginning;
  const startedAtMs = performance.now();
  // Until the result is cut and stored.
  using room = arrivingBytes.open(scope.tenantId);
  const outcome = await executeTraced(calls, call, tool, room.take);
  const stopped = scope.held.stopped();
  if (outcome.state === 'asks') return ask(calls, call, tool.readOnly === true ? open : 'running', outcome.question);
  if (outcome.state === 'error' && (stopped === 'shutdown' || stopped === 'lost')) {
    // The call failed because this worker stops, so the model is not told: the next worker settles the call.
    throw new BatonError('fenced', 'the step was stopped while the call ran');
  }
  const kept = await keepFiles(calls, outcome);
  return tool.readOnly === true
    ? await finish(calls, call, open, { ...kept, ranMs: performance.now() - startedAtMs })
    : await finish(calls, call, 'running', { ...kept, ranMs: null });
}

function executeTraced(
  { deps, scope, messageId, limiter, elsewhere, replies }: Calls,
  call: PlacedCall,
  tool: ServerTool,
  takeRoom: TakeRoom,
): Promise<CallOutcome | CallAsks> {
  const { toolCallId, input } = call.part;
  const callId = formatCallId(messageId, call.index);
  const traced = { tool, toolCallId, callId, input, withContent: deps.traceContent === true };
  return inToolSpan(traced, async (span) => {
    const begun: BegunElsewhere = {
      earlier: elsewhere.get(call.index) ?? null,
      began: (work) => void elsewhere.set(call.index, work),
    };
    const reply = replies.get(call.index) ?? null;
    const outcome = await executeCall(deps, scope, {
      messageId,
      call,
      tool,
      limiter,
      elsewhere: begun,
      reply,
      takeRoom,
    });
    if (outcome.state === 'error') span.failed();
    if (outcome.state === 'completed') span.returned(outcome.output);
    return outcome;
  });
}

/** After the lease has expired another worker may have the run, so a tool waits for the next heartbeat's result. */
async function mayStart({ held }: JobScope): Promise<'yes' | 'cancelled' | 'no'> {
  while (held.stopped() === null && !held.mayAct()) await held.renewed();
  if (held.stopped() === 'cancelled') return 'cancelled';
  return held.stopped() === null ? 'yes' : 'no';
}

/** Commits `running`, unless that came with the response. A stopped step does not start the tool. */
async function begin(calls: Calls, call: PlacedCall, open: ToolCallState): Promise<'begun' | ToolOutput> {
  const { messageId, scope, writes } = calls;
  const { index } = call;
  const isMarked = calls.started.delete(index);
  const mark: CallMove = { messageId, index, from: [open], to: 'running', events: [] };
  if (!isMarked && (await writes.commit(mark)) === 'cancelled') return cancel(calls, call, open);
  const allowed = await mayStart(scope);
  if (allowed === 'yes') return 'begun';
  await putBack(calls, index, open);
  if (allowed === 'cancelled') return cancel(calls, call, open);
  throw new BatonError('fenced', 'the step was stopped before the call');
}

/** Returns a call that is marked `running` but has not begun to its earlier state. */
async function putBack({ messageId, scope, writes }: Calls, index: number, open: ToolCallState): Promise<void> {
  if (scope.held.stopped() === 'lost') return;
  await writes.commit({ messageId, index, from: ['running'], to: open, events: [] });
}

async function cancel(calls: Calls, call: PlacedCall, from: ToolCallState): Promise<ToolOutput> {
  const hasBegun = call.part.state !== 'pending' || calls.elsewhere.has(call.index) || calls.replies.has(call.index);
  return refuse(calls, call, from, hasBegun ? UNKNOWN_OUTCOME : CANCELLED_BEFORE_START);
}

/** Keeps what the tool asks with the call, which waits for the answer. A cancelled run waits for none. */
async function ask(
  calls: Calls,
  call: PlacedCall,
  from: ToolCallState,
  question: CallQuestion,
): Promise<ToolOutput | null> {
  const { messageId, scope, writes, running } = calls;
  const { index, part } = call;
  if (scope.held.stopped() === 'cancelled') return refuse(calls, call, from, UNFINISHED);
  const to = WAITING_STATES.input;
  const move: CallMove = { messageId, index, from: [from], to, question, forgetsAnswer: true, events: [] };
  if (running.size === 1) writes.hold(move);
  else await writes.commit(move);
  calls.asking.set(index, { index, part: { ...part, state: to }, kind: 'input', question });
  return null;
}

/** Nobody goes on with the call, nor with what it has begun elsewhere. */
async function refuse(calls: Calls, call: PlacedCall, from: ToolCallState, reason: string): Promise<ToolOutput> {
  await stopElsewhere(calls, call);
  return finish(calls, call, from, { state: 'error', output: { type: 'error-text', value: reason } });
}

async function stopElsewhere({ elsewhere, tools }: Calls, { index, part }: PlacedCall): Promise<void> {
  const work = elsewhere.get(index);
  if (work === undefined) return;
  await tools.get(part.toolName)?.resumes?.stop(work);
  elsewhere.delete(index);
}

/** `ranMs`: set if the tool ran. Null: its begin was committed, so the database knows how long. */
type Outcome = CallOutcome & Readonly<{ ranMs?: number | null }>;

/** Commits the outcome of a call, fitted to the view. The result of the last running tool is held back. */
async function finish(
  { messageId, limiter, tools, writes, running, outcomes }: Calls,
  call: PlacedCall,
  from: ToolCallState,
  { ranMs, ...outcome }: Outcome,
): Promise<ToolOutput> {
  const { index, part } = call;
  const { state: to } = outcome;
  const events = [callResultEvent(messageId, call, outcome)];
  const limited = await limiter.limit(index, outcome.output, tools.get(part.toolName));
  const move: CallMove = { messageId, index, from: [from], to, ...limited, ...(ranMs != null && { ranMs }), events };
  if (ranMs !== undefined && running.size === 1) writes.hold(move);
  else await writes.commit(move);
  outcomes.set(index, { state: to, output: limited.output });
  return limited.output;
}

/** Bytes become blobs. A client's output, already stored so, may name blobs; a tool's may not. */
async function keepFiles({ deps, scope }: Calls, outcome: CallOutcome): Promise<CallOutcome> {
  const keep = () => keepOutputFiles(deps.db, scope.sessionId, outcome.output);
  return { ...outcome, output: await retryWhileStoreUnavailable(scope.held, keep) };
}

async function allDone(calls: Calls): Promise<void> {
  while (calls.running.size > 0) await Promise.all(calls.running);
  const left = [...calls.started];
  calls.started.clear();
  await Promise.all(left.map((index) => putBack(calls, index, 'pending')));
  if (calls.failures.length === 0) return;
  await calls.writes.commitHeld();
  throw calls.failures[0];
}

/** Waits for both even if one rejects: a running tool counts as running until it is done. */
async function bothDone<T>(ran: Promise<T>, committed: Promise<void>): Promise<T> {
  const [output, kept] = await Promise.allSettled([ran, committed]);
  if (kept.status === 'rejected') throw kept.reason;
  if (output.status === 'rejected') throw output.reason;
  return output.value;
}
