import { setImmediate as nextRound } from 'node:timers/promises';
import type { Agent } from '../agents/agent.ts';
import { describeTools } from '../claims/context-meter.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { afterEvent } from '../commands/after-commit.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { MediaContents } from '../domain/model/model-files.ts';
import type { ModelMessage } from '../domain/model/model-message.ts';
import { requestNotice } from '../domain/model/request-notice.ts';
import { planRuns } from '../domain/run/settlement.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import { showsCalls } from '../model/adapt-model.ts';
import { promptFor } from '../model/model-prompt.ts';
import { inModelSpan, type TracedAnswer, type TracedRequest } from '../model/model-span.ts';
import { hashShown, hashTools } from '../model/request-hash.ts';
import { keepAnswerFiles, readMedia } from '../store/transcript/media.ts';
import type { KeptRequest } from '../store/transcript/step-request.ts';
import { type Answering, responseEvents, toWrite } from './answering.ts';
import type { Asking } from './background.ts';
import {
  callModel,
  type ModelCallHooks,
  type ModelCallLimits,
  type ModelCallResult,
  type ModelCallShape,
  type ModelResponse,
} from './call-model.ts';
import { isOpenCall } from './endings/partial-answer.ts';
import { createInputPreview, createTextPreview, previewThinking } from './previews.ts';
import {
  callsToApprove,
  findRequiredActions,
  findStarts,
  knownApprovals,
  type ToolsByName,
} from './required-actions.ts';
import type { TextStream } from './text-stream.ts';
import { runCalls } from './tool-runner/run-calls.ts';
import type { WindowGuard } from './window-guard.ts';

/** The model, the stream of its text, and what its answer needs. */
type Asked = Readonly<{
  answering: Answering;
  toolsByName: ToolsByName;
  guard: WindowGuard;
  asking: Asking;
  text: TextStream;
}>;

/** `request`: hashes of the request, which are made while the model reads it. */
type ModelAnswer = Readonly<{ result: ModelCallResult; request: Promise<KeptRequest> }>;

/** Asks the model, and runs the calls of a whole answer once it is written. */
export async function askModel(inquiry: Asked): Promise<ModelAnswer> {
  const { answering, toolsByName, guard, asking, text } = inquiry;
  const { deps, scope, context } = answering;
  const { meter, tools, view } = context;
  const { resolved } = asking;
  previewThinking(answering);
  const media = await retryWhileStoreUnavailable(scope.held, () => readMedia(deps.db, scope.sessionId, view));
  const notice = requestNotice(scope.finalAnswerFor, scope.output, context.output?.by ?? null);
  const calls = showsCalls(resolved, meter.entry.tools, tools);
  const { instructions } = meter;
  const prompt = promptFor({ ...resolved, calls, notice }, scope.agent.model, { instructions, view, media });
  const request = keepRequest(answering, prompt.messages, media);
  const writeResponse = async (response: ModelResponse): Promise<readonly CallRequiringAction[] | null> => {
    await text.close();
    // Without calls there is no tool to wait for: one write commits the response and the end of the step.
    if (!response.parts.some(isOpenCall)) return null;
    return await writeWholeResponse({ ...answering, request: await request }, toolsByName, response);
  };
  const result = await inModelSpan(tracedRequest(answering), async (span) => {
    const called = await callModel(scope, { resolved, prompt, tools }, limitsOf(answering, guard), {
      ...previewsOf(inquiry),
      keepFiles: (parts) =>
        retryWhileStoreUnavailable(scope.held, () => keepAnswerFiles(deps.db, scope.sessionId, parts)),
      onResponse(response) {
        span.answered(tracedAnswer(response));
        return writeResponse(response);
      },
    });
    asking.ended(called);
    if (called.response === null) span.broken(called.failure?.error ?? called.end.kind);
    else await runWrittenCalls(answering, called, called.response);
    return called;
  });
  return { result, request };
}

/** An answer that was aborted, or that the SDK refuses, starts no call. Nor does one that could not be written. */
async function runWrittenCalls(
  { scope, runner }: Answering,
  { end, requiring }: ModelCallResult,
  response: ModelResponse,
): Promise<void> {
  const known = end.kind === 'ended' ? await requiring.catch(() => null) : null;
  if (known !== null) await runCalls(scope, runner, planRuns(response, known));
}

function previewsOf({ answering, guard, text }: Asked): Pick<ModelCallHooks, 'onText' | 'onToolInput'> {
  const preview = createTextPreview(answering);
  const previewInput = createInputPreview(answering);
  return {
    onText(type, partIndex, delta) {
      text.push(type, partIndex, delta);
      preview(type, delta);
      guard.heard(delta);
    },
    onToolInput(call, delta) {
      if (call !== null) previewInput(call, delta);
      guard.heard(delta);
    },
  };
}

function limitsOf(answering: Answering, guard: WindowGuard): ModelCallLimits {
  const { deps, scope, maxOutputTokens } = answering;
  const wholeStepMs = scope.agent.limits.stepTimeoutMs ?? deps.modelTimeouts.wholeStepMs;
  const timeouts = { ...deps.modelTimeouts, wholeStepMs };
  return { timeouts, maxOutputTokens, windowSignal: guard.signal, shape: shapeOf(answering) };
}

/** The hashes by which the request of a step is proved later. They are made while the model reads the request. */
async function keepRequest(
  { scope, context: { meter, tools, output } }: Answering,
  messages: readonly ModelMessage[],
  media: MediaContents,
): Promise<KeptRequest> {
  const { finalAnswerFor } = scope;
  await nextRound();
  return {
    sha256: hashShown(meter.instructions, messages, media),
    toolsSha256: hashTools(describeTools(tools)),
    ...(finalAnswerFor !== null && { finalAnswerFor }),
    ...(output !== null && scope.output !== null && { outputState: scope.output.state }),
  };
}

function tracedRequest({ deps, scope, context, maxOutputTokens }: Answering): TracedRequest {
  const { resolved, meter, view } = context;
  const { model, settings } = scope.agent;
  return {
    resolved,
    sessionId: formatId('session', scope.sessionId),
    maxOutputTokens,
    settings,
    isJson: scope.output !== null && context.output !== null,
    withContent: deps.traceContent === true,
    prompt: () => promptFor(resolved, model, { instructions: meter.instructions, view }),
    tools: context.tools,
  };
}

function tracedAnswer({ finishReason, usage, parts, timing, made = {} }: ModelResponse): TracedAnswer {
  return { finishReason, usage, parts: () => parts, firstTokenMs: timing.firstTokenMs, ...made };
}

/**
 * The tools are sent also where none may be called: the provider's cache then serves the prompt, and some providers
 * refuse a history of calls without tools.
 */
function shapeOf({ scope, context }: Answering): ModelCallShape {
  const { output: request } = context;
  const mayCall = scope.finalAnswerFor === null && (request === null || request.tools === 'callable');
  const toolChoice = mayCall ? forcedChoice(scope, context) : ({ toolChoice: 'none' } as const);
  return {
    ...toolChoice,
    ...(request?.by === 'native' && scope.output !== null && { format: scope.output.format }),
  };
}

/**
 * Holds for the first answer to a request, which brought a message or the results of the client's own calls: forced again
 * after other results, the model could never end.
 */
function forcedChoice({ agent: { toolChoice, tools } }: JobScope, { view }: Answering['context']) {
  if (toolChoice === undefined || !beginsRequest(view.at(-1), tools)) return {};
  if (toolChoice === 'required') return { toolChoice } as const;
  return { toolChoice: { type: 'tool', toolName: toolChoice.tool } } as const;
}

function beginsRequest(last: ViewMessage | undefined, tools: Agent['tools']): boolean {
  if (last === undefined || last.role === 'user') return last !== undefined;
  const ofClient = new Set(tools.flatMap((source) => (typeof source === 'string' ? [] : (source.client?.name ?? []))));
  return last.parts.some((part) => part.type === 'tool' && ofClient.has(part.toolName));
}

/**
 * Commits a response with calls, and `running` for the calls that start at once. If a tool has an approval function, no
 * call starts with this write: the function is called afterwards and may take long.
 * @returns the calls that require an action
 * @throws BatonError `fenced`
 */
async function writeWholeResponse(
  answering: Answering,
  tools: ToolsByName,
  response: ModelResponse,
): Promise<readonly CallRequiringAction[]> {
  const { deps, scope, runner } = answering;
  runner.expect(response.parts);
  const approvals = knownApprovals(tools, response);
  const isGoingOn = approvals !== null && scope.held.stopped() === null && scope.held.mayAct();
  const starts = isGoingOn ? findStarts(tools, response, approvals, scope.toolConcurrency) : NONE;
  const events = responseEvents(answering, response);
  const write = () => deps.writes.respond(scope.fence, toWrite(answering, response, starts), events);
  const written = await retryWhileStoreUnavailable(scope.held, write);
  if (written === null) {
    scope.held.stop('lost');
    throw new BatonError('fenced', 'another worker has the run');
  }
  if (written.mayStart) runner.started(starts);
  afterEvent(deps, scope.sessionId, written);
  return findRequiredActions(tools, response, approvals ?? (await callsToApprove(tools, response, scope.held)));
}

const NONE: ReadonlySet<number> = new Set();
