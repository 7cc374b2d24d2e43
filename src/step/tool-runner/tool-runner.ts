import { type JobScope, logFields } from '../../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../../claims/retry-while-store-unavailable.ts';
import { BatonError } from '../../domain/errors.ts';
import { withPlainNumbers } from '../../domain/exact-json.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { callResultEvent } from '../../domain/run/call-events.ts';
import { CANCELLED_BEFORE_START, GIVEN_UP, type GivenCall } from '../../domain/run/settlement.ts';
import type { Json, Part, ToolOutput, ToolPart } from '../../domain/transcript/message.ts';
import {
  type CallOutcome,
  outcomeOf,
  type PlacedCall,
  UNKNOWN_OUTCOME,
} from '../../domain/transcript/required-action.ts';
import type { ToolCallState } from '../../domain/transcript/tool-call.ts';
import { DEFAULT_TOOL_TIMEOUT_MS, TOOL_ABORT_GRACE_MS } from '../../domain/tunables.ts';
import { toContentOutput, toOutput } from '../../model/content-output.ts';
import { inToolSpan } from '../../model/model-span.ts';
import { toErrorOutput, toToolOutput } from '../../model/response-parts.ts';
import { abortAfter } from '../../platform/abort-after.ts';
import { arrivingBytes, type TakeRoom } from '../../platform/arriving-bytes.ts';
import { isStoreUnavailable } from '../../store/db/store-unavailable.ts';
import { keepOutputFiles } from '../../store/transcript/media.ts';
import { type CallMove, type MoveAnswer, moveCalls } from '../../store/work/step-writes.ts';
import { numberProblem } from '../../tools/check-arguments.ts';
import { sanitizeOutput } from '../../tools/sanitize-output.ts';
import { isServerTool, type ServerTool, type Tool } from '../../tools/tool.ts';
import type { StepDeps } from '../deps.ts';
import { outsideWorkOf } from '../outside-work.ts';
import { reportDrift } from '../report-drift.ts';
import { createWriteGroup } from '../write-group.ts';
import { createOutputLimiter, type OutputLimiter, type OutputLimits } from './output-limiter.ts';

export type ToolRunner = Readonly<{
  /** Sets the parts of the message before any call runs: their results share one budget. */
  expect: (parts: readonly Part[]) => void;
  /** Sets the calls that were committed as `running` with their response, by index. */
  started: (indices: ReadonlySet<number>) => void;
  /** Sets what earlier workers have begun elsewhere for the calls, by index. */
  begunElsewhere: (works: ReadonlyMap<number, Json>) => void;
  /** Runs one call and commits its outcome. @throws BatonError `fenced`, and database errors */
  run: (call: PlacedCall) => Promise<ToolOutput>;
  /** Settles a call without running it. The model reads the reason. */
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
  /** True: this runner knows the call's outcome. */
  hasSettled: (index: number) => boolean;
  /** The outcome of the call, as the view shows it. */
  outcomeOf: (index: number) => CallOutcome | undefined;
}>;

/** After the lease has expired another worker may have the run, so a tool waits for the next heartbeat's result. */
async function mayStart({ held }: JobScope): Promise<'yes' | 'cancelled' | 'no'> {
  while (held.stopped() === null && !held.mayAct()) await held.renewed();
  if (held.stopped() === 'cancelled') return 'cancelled';
  return held.stopped() === null ? 'yes' : 'no';
}

/**
 * Runs the calls of one message. Only the holder of the run commits `running` before the side effect and the result
 * after it.
 * - The last result is committed with the end of the step.
 * - A result too large for the view shows head and tail; the whole is committed with it as a blob.
 */
export function createToolRunner(
  deps: StepDeps,
  scope: JobScope,
  messageId: string,
  tools: ReadonlyMap<string, Tool>,
  limits: OutputLimits,
): ToolRunner {
  const limiter = createOutputLimiter(deps, { sessionId: scope.sessionId, messageId }, limits);
  const running = new Set<Promise<unknown>>();
  const outcomes = new Map<number, CallOutcome>();
  /** `running` in the database, but not begun. */
  const started = new Set<number>();
  const elsewhere = new Map<number, Json>();
  const failures: unknown[] = [];
  let last: CallMove | null = null;

  const moveOf = createWriteGroup((moves: readonly CallMove[], failure) =>
    writeMoves(deps, scope, moves, isStoreUnavailable(failure)),
  );
  const commit = async (move: CallMove): Promise<'moved' | 'cancelled'> => {
    const answer = await moveOf(move);
    if (answer !== 'refused') return answer;
    throw new BatonError('blocked_transition', `the call is not ${move.from.join(' or ')}`);
  };
  const commitLast = async (): Promise<void> => {
    const taken = last;
    last = null;
    if (taken !== null && scope.held.stopped() !== 'lost') await commit(taken);
  };
  /** Bytes become blobs. A client's output, already stored so, may name blobs; a tool's may not. */
  const keepFiles = async (made: CallOutcome): Promise<CallOutcome> => ({
    ...made,
    output: await retryWhileStoreUnavailable(scope.held, () => keepOutputFiles(deps.db, scope.sessionId, made.output)),
  });
  const finish = async (
    call: PlacedCall,
    from: ToolCallState,
    outcome: CallOutcome,
    ran: Readonly<{ ranMs?: number }> | null = null,
  ): Promise<ToolOutput> => {
    const { index, part } = call;
    const events = [callResultEvent(messageId, call, outcome)];
    const shown = await limiter.limit(index, outcome.output, tools.get(part.toolName));
    const move: CallMove = { messageId, index, from: [from], to: outcome.state, ...shown, ...ran, events };
    if (ran !== null && running.size === 1) last = move;
    else await commit(move);
    outcomes.set(index, { state: outcome.state, output: shown.output });
    return shown.output;
  };
  const refuse = (call: PlacedCall, from: ToolCallState, reason: string): Promise<ToolOutput> =>
    finish(call, from, { state: 'error', output: { type: 'error-text', value: reason } });
  const cancel = async (call: PlacedCall, from: ToolCallState): Promise<ToolOutput> => {
    const work = elsewhere.get(call.index);
    if (work !== undefined) await tools.get(call.part.toolName)?.resumes?.stop(work);
    const hasBegun = call.part.state !== 'pending' || work !== undefined;
    return refuse(call, from, hasBegun ? UNKNOWN_OUTCOME : CANCELLED_BEFORE_START);
  };

  /** Returns a call that is marked `running` but has not begun to its earlier state. */
  const putBack = async (index: number, open: ToolCallState): Promise<void> => {
    if (scope.held.stopped() !== 'lost') await commit({ messageId, index, from: ['running'], to: open, events: [] });
  };
  /** Commits `running`, unless that came with the response. A stopped step does not start the tool. */
  const begin = async (call: PlacedCall, open: ToolCallState): Promise<'begun' | ToolOutput> => {
    const { index } = call;
    const isMarked = started.delete(index);
    if (!isMarked && (await commit({ messageId, index, from: [open], to: 'running', events: [] })) === 'cancelled') {
      return cancel(call, open);
    }
    const allowed = await mayStart(scope);
    if (allowed === 'yes') return 'begun';
    await putBack(index, open);
    if (allowed === 'cancelled') return cancel(call, open);
    throw new BatonError('fenced', 'the step was stopped before the call');
  };
  const runCall = async (call: PlacedCall): Promise<ToolOutput> => {
    const open: ToolCallState = call.part.state === 'pending' ? 'pending' : 'unknown';
    const allowed = started.has(call.index) ? 'yes' : await mayStart(scope);
    if (allowed === 'cancelled') return cancel(call, open);
    if (allowed === 'no') throw new BatonError('fenced', 'the step was stopped before the call');
    const tool = tools.get(call.part.toolName);
    if (!isServerTool(tool)) return refuse(call, open, `There is no tool named ${call.part.toolName}.`);
    const begun = tool.readOnly === true ? 'begun' : await begin(call, open);
    if (begun !== 'begun') return begun;
    const { toolCallId, input } = call.part;
    const traced = { tool: tool.name, toolCallId, input, withContent: deps.traceContent === true };
    const startedAtMs = performance.now();
    // Until the result is cut and stored.
    using room = arrivingBytes.open(scope.tenantId);
    const outcome = await inToolSpan(traced, async (fail) => {
      const done = await execute(
        deps,
        scope,
        messageId,
        call,
        tool,
        limiter,
        elsewhere.get(call.index) ?? null,
        room.take,
      );
      if (done.state === 'error') fail();
      return done;
    });
    const stopped = scope.held.stopped();
    if (outcome.state === 'error' && (stopped === 'shutdown' || stopped === 'lost')) {
      // The call failed because this worker stops, so the model is not told: the next worker settles the call.
      throw new BatonError('fenced', 'the step was stopped while the call ran');
    }
    const kept = await keepFiles(outcome);
    return tool.readOnly === true
      ? await finish(call, open, kept, { ranMs: performance.now() - startedAtMs })
      : await finish(call, 'running', kept, {});
  };
  const allDone = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running);
    const left = [...started];
    started.clear();
    await Promise.all(left.map((index) => putBack(index, 'pending')));
    if (failures.length === 0) return;
    await commitLast();
    throw failures[0];
  };
  return {
    expect: (parts) => limiter.expect(parts),
    started(indices) {
      for (const index of indices) started.add(index);
    },
    begunElsewhere(works) {
      for (const [index, work] of works) elsewhere.set(index, work);
    },
    run(call) {
      // The step goes on, so its end does not follow yet: commit the held outcome now.
      const committed = commitLast();
      const promise = bothDone(runCall(call), committed);
      const settled = promise.catch((error: unknown) => failures.push(error));
      running.add(settled);
      void settled.finally(() => running.delete(settled));
      return promise;
    },
    async settle(call, from, reason) {
      await refuse(call, from, reason);
    },
    async give(call) {
      const { state, output } = outcomeOf(call.answer);
      await finish(call, call.part.state, { state, output: sanitizeOutput(output) });
    },
    async markUnknown({ index }) {
      await commit({ messageId, index, from: ['running'], to: 'unknown', forgetsAnswer: true, events: [] });
    },
    allDone,
    async allSettled() {
      await allDone();
      await commitLast();
    },
    async withLast(endsWith) {
      const moves = last === null ? [] : [last];
      const done = await endsWith(moves);
      last = null;
      return done;
    },
    keepLast: commitLast,
    hasSettled: (index) => outcomes.has(index),
    outcomeOf: (index) => outcomes.get(index),
  };
}

/** Waits for both even if one rejects: a running tool counts as running until it is done. */
async function bothDone<T>(ran: Promise<T>, committed: Promise<void>): Promise<T> {
  const [output, kept] = await Promise.allSettled([ran, committed]);
  if (kept.status === 'rejected') throw kept.reason;
  if (output.status === 'rejected') throw output.reason;
  return output.value;
}

/** @param wasAway the moves may have been committed before @throws BatonError `fenced` */
async function writeMoves(
  deps: StepDeps,
  scope: JobScope,
  moves: readonly CallMove[],
  wasAway: boolean,
): Promise<readonly MoveAnswer[]> {
  const { held, fence, sessionId } = scope;
  let isAgain = wasAway;
  const moved = await retryWhileStoreUnavailable(held, (isRepeated) => {
    isAgain ||= isRepeated;
    return moveCalls(deps.db, fence, moves);
  });
  if (moved === null) {
    held.stop('lost');
    throw new BatonError('fenced', 'another worker has the run');
  }
  deps.bus.announce(sessionId, moved.eventSeq);
  // Refused on a repeat: the first write was committed, and its reply was lost.
  return moved.answers.map((answer) => (isAgain && answer === 'refused' ? 'moved' : answer));
}

async function execute(
  deps: StepDeps,
  scope: JobScope,
  messageId: string,
  call: PlacedCall,
  tool: ServerTool,
  limiter: OutputLimiter,
  earlier: Json | null,
  takeRoom: TakeRoom,
): Promise<CallOutcome> {
  const callKey = formatCallId(messageId, call.index);
  const logged = { ...logFields(scope), tool: tool.name, callKey };
  deps.log('debug', { event: 'tool_started', ...logged });
  using timeout = abortAfter(tool.timeoutMs ?? DEFAULT_TOOL_TIMEOUT_MS);
  const signal = AbortSignal.any([scope.held.signal, timeout.signal]);
  const startedAtMs = performance.now();
  let outcome: CallOutcome;
  try {
    const work = tool.execute(inputFor(tool, call.part), {
      signal,
      callKey,
      toolCallId: call.part.toolCallId,
      tenantId: scope.tenantId,
      sessionId: formatId('session', scope.sessionId),
      runId: formatId('run', scope.runId),
      takeRoom,
      isShownWhole: (text) => limiter.isShownWhole(text, tool),
      reportDrift: (drift) => reportDrift(deps, scope, drift),
      ...(tool.resumes !== undefined && {
        outside: outsideWorkOf(deps, scope, { messageId, index: call.index }, earlier),
      }),
    });
    outcome = await outcomeOfResult(tool, call.part, await untilGivenUp(work, signal));
  } catch (error) {
    const timedOut = timeout.signal.aborted && !scope.held.signal.aborted && !(error instanceof ToolGivenUp);
    const failure = timedOut ? new Error(`${tool.name} did not finish within its time.`) : error;
    outcome = { state: 'error', output: sanitizeOutput(toErrorOutput(failure)) };
  }
  const success = outcome.state === 'completed';
  deps.log('debug', {
    event: 'tool_finished',
    ...logged,
    success,
    durationMs: Math.round(performance.now() - startedAtMs),
  });
  return outcome;
}

/** @throws BatonError of which the model reads the message, for arguments that a person gave with an approval */
function inputFor(tool: ServerTool, { input }: ToolPart): unknown {
  if (tool.takesWrittenNumbers === true) return input;
  const problem = numberProblem(input);
  if (problem !== null) throw new BatonError('invalid_request', problem);
  return withPlainNumbers(input);
}

/** The tool's result as the model is shown it. @throws errors of the tool's `toModelOutput` */
async function outcomeOfResult(tool: ServerTool, part: ToolPart, output: unknown): Promise<CallOutcome> {
  const { toolCallId } = part;
  const shown =
    tool.toModelOutput === undefined
      ? (toContentOutput(output) ?? toToolOutput(output))
      : toOutput(await tool.toModelOutput({ toolCallId, input: inputFor(tool, part), output }));
  return { state: shown.type === 'error-text' ? 'error' : 'completed', output: sanitizeOutput(shown) };
}

class ToolGivenUp extends Error {
  constructor() {
    super(GIVEN_UP);
  }
}

/** The work's result. A tool that ignores its abort signal is given up; its later effects are unknown. */
async function untilGivenUp<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: givenUp, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    timer = setTimeout(() => reject(new ToolGivenUp()), TOOL_ABORT_GRACE_MS);
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, givenUp]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(timer);
  }
}
