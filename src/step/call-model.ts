import type { ToolChoice, ToolSet } from 'ai';
import type { JobScope } from '../claims/job-scope.ts';
import type { FailedCall } from '../domain/model/provider-failure.ts';
import type { StepTiming } from '../domain/run/events.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import { NOT_RUN_AT_LIMIT } from '../domain/run/settlement.ts';
import type { FinishReason, Part } from '../domain/transcript/message.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import type { Usage } from '../domain/usage.ts';
import { callSettings } from '../model/call-settings.ts';
import { brokeOff, toFinishReason } from '../model/finish-reason.ts';
import { failedCallOf, type ModelFailure, toModelFailure } from '../model/model-error.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import type { ModelPrompt } from '../model/model-prompt.ts';
import { withResponseFormat } from '../model/response-format.ts';
import { toParts, toUsage } from '../model/response-parts.ts';
import { type AnswerEnd, comesFromModel, type StreamEnd, streamAnswer } from '../model/stream-answer.ts';
import { createStreamProcessor, type StreamedCall } from '../model/stream-processor.ts';
import { createWatchdog, type ModelTimeouts, type Watchdog } from '../model/watchdog.ts';
import { argumentsProblem } from '../tools/check-arguments.ts';
import type { Tool } from '../tools/tool.ts';
import { isOpenCall, refuseCalls, refuseCutCalls } from './endings/partial-answer.ts';

export type ModelResponse = Readonly<{
  parts: readonly Part[];
  finishReason: FinishReason;
  usage: Usage;
  timing: Pick<StepTiming, 'viewMs' | 'firstTokenMs' | 'streamMs'>;
  /** As the provider names the response and the model that made it; for traces. */
  made?: Made;
}>;

type Made = Readonly<{ responseId?: string | undefined; model?: string | undefined }>;

/** Abilities of a call besides an answer in words. */
export type ModelCallShape = Readonly<{
  /** Default: the model decides whether it calls tools. */
  toolChoice?: ToolChoice<ToolSet>;
  /** The provider makes the answer fit this format. */
  format?: OutputFormat;
}>;

export type ModelCallLimits = Readonly<{
  timeouts: ModelTimeouts;
  maxOutputTokens: number;
  /** Aborted when the window is nearly full. */
  windowSignal: AbortSignal;
  shape: ModelCallShape;
}>;

export type ModelCallHooks = Readonly<{
  onText: (type: 'text' | 'reasoning', partIndex: number, text: string) => void;
  /** A piece of a call's input; the first is empty. Null: the provider runs the call itself. */
  onToolInput: (call: StreamedCall | null, text: string) => void;
  /** Turns the answer's files into blobs before any part is written. */
  keepFiles: (parts: readonly Part[]) => Promise<readonly Part[]>;
  /**
   * Writes a complete response that has calls, and resolves with those that require an action. Null: it has no calls and
   * is not written. May reject.
   */
  onResponse: (response: ModelResponse) => Promise<readonly CallRequiringAction[] | null>;
}>;

/** `stopped`: by Baton, because the window filled up while the model answered. */
type ModelCallEnd = StreamEnd | Readonly<{ kind: 'stopped' }>;

/** `response` is set once the answer was complete, also if the stream failed afterwards. */
export type ModelCallResult = Readonly<{
  end: ModelCallEnd;
  response: ModelResponse | null;
  /** The answer of `onResponse`; null without one. It has settled. */
  requiring: ReturnType<ModelCallHooks['onResponse']>;
  /** The reason for which there is no response. Null: there is one, or the worker stopped the call. */
  failure: ModelFailure | null;
  /** The parts of an answer that broke off. */
  partial: readonly Part[];
  /** The finish reason as the provider spells it. */
  rawFinishReason: string | null;
  /** Time to the first sign of an answer. Null: there was none. */
  firstChunkMs: number | null;
  /** Time to the end of the answer. */
  durationMs: number;
}>;

/** One model call. Its tool calls are the caller's. Never throws for an error of the model or of `onResponse`. */
export async function callModel(
  scope: JobScope,
  { resolved, prompt, tools }: Readonly<{ resolved: ResolvedModel; prompt: ModelPrompt; tools: readonly Tool[] }>,
  limits: ModelCallLimits,
  hooks: ModelCallHooks,
): Promise<ModelCallResult> {
  const viewMs = Math.round(performance.now() - scope.claimedAtMs);
  using watchdog = createWatchdog(limits.timeouts);
  const processor = createStreamProcessor(hooks.onText, hooks.onToolInput);
  const answer: Answer = { response: null, requiring: Promise.resolve(null), durationMs: null, made: {} };
  let heard: Promise<unknown> = Promise.resolve();
  const { toolChoice, format } = limits.shape;
  const settings = callSettings(resolved, {
    sessionId: scope.sessionId,
    settings: scope.agent.settings,
    maxOutputTokens: limits.maxOutputTokens,
    messages: prompt.messages,
    format,
    oneCall: scope.agent.parallelToolCalls === false && tools.length > 0,
  });
  const { end: read, headers } = await streamAnswer(
    {
      model: format === undefined ? resolved.model : withResponseFormat(resolved.model, format),
      prompt,
      tools,
      toolChoice,
      settings,
      signal: AbortSignal.any([scope.held.signal, watchdog.signal, limits.windowSignal]),
    },
    {
      onPart(part) {
        if (comesFromModel(part)) watchdog.heard();
        if (part.type === 'model-call-response-metadata') answer.made = { responseId: part.id, model: part.modelId };
        processor.onPart(part);
      },
      onEnd: (end) =>
        (heard = takeAnswer(answer, end, { scope, tools, hooks, watchdog, viewMs }).catch(() => undefined)),
    },
  );
  // An abort ends the stream while the response is still being written.
  await heard;
  const end = whyItEnded(read, watchdog.signal, limits.windowSignal);
  return {
    end,
    response: answer.response,
    requiring: answer.requiring,
    failure: answer.response === null ? whyFailed(end, failedCallOf(resolved, prompt, headers)) : null,
    partial: await hooks.keepFiles(processor.partial()),
    rawFinishReason: processor.rawFinishReason(),
    firstChunkMs: watchdog.firstChunkMs(),
    durationMs: answer.durationMs ?? watchdog.elapsedMs(),
  };
}

/** What the end of the answer has left. */
type Answer = {
  response: ModelResponse | null;
  requiring: ModelCallResult['requiring'];
  durationMs: number | null;
  made: Made;
};

/** Keeps a whole answer: as the response of the step, and written. @throws what the hooks reject with */
async function takeAnswer(
  answer: Answer,
  end: AnswerEnd,
  call: Readonly<{
    scope: JobScope;
    tools: readonly Tool[];
    hooks: ModelCallHooks;
    watchdog: Watchdog;
    viewMs: number;
  }>,
): Promise<void> {
  const { scope, tools, hooks, watchdog, viewMs } = call;
  watchdog.rest();
  answer.durationMs = watchdog.elapsedMs();
  if (brokeOff(end.finishReason)) return;
  const finishReason = toFinishReason(end.finishReason);
  const whole = await checkCalls(tools, await hooks.keepFiles(toParts(end.content)), scope.held.signal);
  const parts = finishReason === 'length' ? refuseCutCalls(whole) : whole;
  answer.response = {
    parts: scope.finalAnswerFor === null ? parts : refuseCalls(parts, NOT_RUN_AT_LIMIT),
    finishReason,
    usage: toUsage(end.usage),
    timing: { viewMs, ...splitAnswer(watchdog.firstChunkMs(), watchdog.elapsedMs()) },
    made: answer.made,
  };
  answer.requiring = hooks.onResponse(answer.response);
  await answer.requiring;
}

/** Splits the time of an answer at its first sign. */
function splitAnswer(firstChunkMs: number | null, elapsedMs: number) {
  const firstTokenMs = firstChunkMs === null ? null : Math.round(firstChunkMs);
  return { firstTokenMs, streamMs: Math.round(elapsedMs) - (firstTokenMs ?? 0) };
}

function whyFailed(end: ModelCallEnd, call: FailedCall): ModelFailure | null {
  if (end.kind === 'failed') return toModelFailure(end.error, call);
  return end.kind === 'ended' ? toModelFailure(new Error('the answer broke off'), call) : null;
}

function whyItEnded(read: StreamEnd, watchdog: AbortSignal, window: AbortSignal): ModelCallEnd {
  if (watchdog.aborted) return { kind: 'failed', error: watchdog.reason };
  return window.aborted && read.kind !== 'ended' ? { kind: 'stopped' } : read;
}

/**
 * Checks the arguments of a whole answer's calls, whoever runs them. A call whose arguments its tool does not take has
 * its outcome with the answer, and the model reads why.
 */
async function checkCalls(
  tools: readonly Tool[],
  parts: readonly Part[],
  signal: AbortSignal,
): Promise<readonly Part[]> {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return Promise.all(
    parts.map(async (part): Promise<Part> => {
      const tool = isOpenCall(part) ? byName.get(part.toolName) : undefined;
      if (!isOpenCall(part) || tool === undefined) return part;
      const problem = await argumentsProblem(tool, part.input, signal);
      return problem === null ? part : { ...part, state: 'error', output: { type: 'error-text', value: problem } };
    }),
  );
}
