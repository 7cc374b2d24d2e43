import { type JobScope, logFields } from '../../claims/job-scope.ts';
import { BatonError } from '../../domain/errors.ts';
import { withPlainNumbers } from '../../domain/exact-json.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { GIVEN_UP } from '../../domain/run/settlement.ts';
import type { CallQuestion } from '../../domain/transcript/call-question.ts';
import type { ToolPart } from '../../domain/transcript/message.ts';
import type { CallOutcome, PlacedCall } from '../../domain/transcript/required-action.ts';
import { DEFAULT_TOOL_TIMEOUT_MS, TOOL_ABORT_GRACE_MS } from '../../domain/tunables.ts';
import { toContentOutput, toOutput } from '../../model/content-output.ts';
import { toErrorOutput, toToolOutput } from '../../model/response-parts.ts';
import { abortAfter } from '../../platform/abort-after.ts';
import type { TakeRoom } from '../../platform/arriving-bytes.ts';
import { numberProblem } from '../../tools/check-arguments.ts';
import { InputNeeded, type ToolReply } from '../../tools/input-needed.ts';
import { sanitizeOutput } from '../../tools/sanitize-output.ts';
import type { ServerTool } from '../../tools/tool.ts';
import type { StepDeps } from '../deps.ts';
import { type BegunElsewhere, outsideWorkOf } from '../outside-work.ts';
import { reportDrift } from '../report-drift.ts';
import type { OutputLimiter } from './output-limiter.ts';

export type ToolCall = Readonly<{
  messageId: string;
  call: PlacedCall;
  tool: ServerTool;
  limiter: OutputLimiter;
  elsewhere: BegunElsewhere;
  /** What the tool has asked in this call, and the answer; null: nothing. */
  reply: ToolReply | null;
  takeRoom: TakeRoom;
}>;

/** The tool asks a person for more before it goes on. */
export type CallAsks = Readonly<{ state: 'asks'; question: CallQuestion }>;

/** Runs the tool of a call within its time. Never rejects: an error of the tool is the call's outcome. */
export async function executeCall(
  deps: StepDeps,
  scope: JobScope,
  { messageId, call, tool, limiter, elsewhere, reply, takeRoom }: ToolCall,
): Promise<CallOutcome | CallAsks> {
  const callKey = formatCallId(messageId, call.index);
  const logged = { ...logFields(scope), tool: tool.name, callKey };
  deps.log('debug', { event: 'tool_started', ...logged });
  using timeout = abortAfter(tool.timeoutMs ?? DEFAULT_TOOL_TIMEOUT_MS);
  const signal = AbortSignal.any([scope.held.signal, timeout.signal]);
  const startedAtMs = performance.now();
  let outcome: CallOutcome | CallAsks;
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
      ...(reply !== null && { reply }),
      ...(tool.resumes !== undefined && {
        outside: outsideWorkOf(deps, scope, { messageId, index: call.index }, elsewhere),
      }),
    });
    outcome = await outcomeOfResult(tool, call.part, await untilGivenUp(work, signal));
  } catch (error) {
    const timedOut = timeout.signal.aborted && !scope.held.signal.aborted && !(error instanceof ToolGivenUp);
    const failure = timedOut ? new Error(`${tool.name} did not finish within its time.`) : error;
    outcome =
      error instanceof InputNeeded
        ? { state: 'asks', question: error.question }
        : { state: 'error', output: sanitizeOutput(toErrorOutput(failure)) };
  }
  const success = outcome.state !== 'error';
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
  const limited =
    tool.toModelOutput === undefined
      ? (toContentOutput(output) ?? toToolOutput(output))
      : toOutput(await tool.toModelOutput({ toolCallId, input: inputFor(tool, part), output }));
  return { state: limited.type === 'error-text' ? 'error' : 'completed', output: sanitizeOutput(limited) };
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
