import {
  dynamicTool,
  isStepCount,
  type LanguageModelCallEndEvent,
  experimental_streamTextLowMemory as streamText,
  type ToolChoice,
  type ToolSet,
} from 'ai';
import type { JobScope } from '../claims/job-scope.ts';
import { BatonError } from '../domain/errors.ts';
import type { FailedCall } from '../domain/model/provider-failure.ts';
import type { StepTiming } from '../domain/run/events.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import { NOT_RUN_AT_LIMIT } from '../domain/run/settlement.ts';
import type { FinishReason, Part } from '../domain/transcript/message.ts';
import type { PlacedCall } from '../domain/transcript/required-action.ts';
import type { Usage } from '../domain/usage.ts';
import { callSettings } from '../model/call-settings.ts';
import { brokeOff, toFinishReason } from '../model/finish-reason.ts';
import { failedCallOf, type ModelFailure, toModelFailure } from '../model/model-error.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { leaveToProvider, type ModelPrompt } from '../model/model-prompt.ts';
import { withResponseFormat } from '../model/response-format.ts';
import { watchHeaders } from '../model/response-headers.ts';
import { toParts, toUsage } from '../model/response-parts.ts';
import { toSdkSchema } from '../model/sdk-schema.ts';
import { createStreamProcessor, type StreamEnd, type StreamedCall } from '../model/stream-processor.ts';
import { createWatchdog, type ModelTimeouts } from '../model/watchdog.ts';
import type { Tool } from '../tools/tool.ts';
import { refuseCalls } from './endings/partial-answer.ts';

export type ModelResponse = Readonly<{
  parts: readonly Part[];
  finishReason: FinishReason;
  usage: Usage;
  timing: Pick<StepTiming, 'viewMs' | 'firstTokenMs' | 'streamMs'>;
}>;

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
  /** The response is complete. Tools start after this has resolved; if it rejects, none starts. */
  onResponse: (response: ModelResponse) => Promise<void>;
  runCall: (call: PlacedCall) => Promise<unknown>;
}>;

/** `response` is set once the answer was complete, also if the stream failed afterwards. */
export type ModelCallResult = Readonly<{
  end: StreamEnd;
  response: ModelResponse | null;
  /** The reason for which there is no response. Null: there is one, or the worker stopped the call. */
  failure: ModelFailure | null;
  /** The parts of an answer that broke off. */
  partial: readonly Part[];
  /** The finish reason as the provider spells it. */
  rawFinishReason: string | null;
  /** Time to the first sign of an answer. Null: there was none. */
  firstChunkMs: number | null;
  /** Time to the end of the answer, without its tools. */
  durationMs: number;
}>;

/**
 * One model call and its tool calls. The SDK starts tools early and swallows errors of callbacks, so the response is
 * taken from the model-call-end callback, and every tool waits on `durable`, which also carries the errors.
 */
export async function callModel(
  scope: JobScope,
  resolved: ResolvedModel,
  prompt: ModelPrompt,
  tools: readonly Tool[],
  limits: ModelCallLimits,
  hooks: ModelCallHooks,
): Promise<ModelCallResult> {
  const isFinal = scope.finalAnswerFor !== null;
  const viewMs = Math.round(performance.now() - scope.claimedAtMs);
  using watchdog = createWatchdog(limits.timeouts);
  const processor = createStreamProcessor(hooks.onText, watchdog.heard, hooks.onToolInput);
  const durable = Promise.withResolvers<readonly Part[]>();
  durable.promise.catch(() => undefined);
  const answer: { response: ModelResponse | null; durationMs: number | null } = { response: null, durationMs: null };
  const hear = async (event: LanguageModelCallEndEvent<ToolSet>): Promise<void> => {
    watchdog.rest();
    answer.durationMs = watchdog.elapsedMs();
    if (brokeOff(event.finishReason)) return;
    try {
      const parts = await hooks.keepFiles(toParts(event.content));
      const response = {
        parts: isFinal ? refuseCalls(parts, NOT_RUN_AT_LIMIT) : parts,
        finishReason: toFinishReason(event.finishReason),
        usage: toUsage(event.usage),
        timing: { viewMs, ...splitAnswer(watchdog.firstChunkMs(), watchdog.elapsedMs()) },
      };
      answer.response = response;
      await hooks.onResponse(response);
      durable.resolve(response.parts);
    } catch (error) {
      durable.reject(error);
    }
  };
  let heard: Promise<void> = Promise.resolve();
  const watched = watchHeaders(resolved.model);
  const { toolChoice, format } = limits.shape;
  const sdkTools = toSdkTools(tools, durable.promise, isFinal ? null : hooks.runCall);
  // One reader only: with several, the SDK would buffer every part of the stream for later readers.
  const result = streamText({
    model: format === undefined ? watched.model : withResponseFormat(watched.model, format),
    ...prompt,
    experimental_download: leaveToProvider,
    tools: sdkTools,
    ...(toolChoice !== undefined && tools.length > 0 && { toolChoice }),
    stopWhen: isStepCount(1),
    maxRetries: 0,
    abortSignal: AbortSignal.any([scope.held.signal, watchdog.signal, limits.windowSignal]),
    toolCallConcurrency: scope.toolConcurrency,
    ...callSettings(resolved, {
      sessionId: scope.sessionId,
      settings: scope.agent.settings,
      maxOutputTokens: limits.maxOutputTokens,
      messages: prompt.messages,
      format,
    }),
    onLanguageModelCallEnd: (event) => (heard = hear(event)),
    // The stream carries every error as a part. The SDK's default would print the error with the prompt.
    onError: () => undefined,
  });
  const read = await processor.read(result.stream);
  // After an abort the SDK ends the stream while the callback still writes the response.
  await heard;
  const end = whyItEnded(read, watchdog.signal, limits.windowSignal);
  if (answer.response === null) durable.reject(new BatonError('fenced', 'the response never got whole'));
  return {
    end,
    response: answer.response,
    failure: answer.response === null ? whyFailed(end, failedCallOf(resolved, prompt, watched.headers())) : null,
    partial: await hooks.keepFiles(processor.partial()),
    rawFinishReason: processor.rawFinishReason(),
    firstChunkMs: watchdog.firstChunkMs(),
    durationMs: answer.durationMs ?? watchdog.elapsedMs(),
  };
}

/** Splits the time of an answer at its first sign. */
function splitAnswer(firstChunkMs: number | null, elapsedMs: number) {
  const firstTokenMs = firstChunkMs === null ? null : Math.round(firstChunkMs);
  return { firstTokenMs, streamMs: Math.round(elapsedMs) - (firstTokenMs ?? 0) };
}

function whyFailed(end: StreamEnd, call: FailedCall): ModelFailure | null {
  if (end.kind === 'failed') return toModelFailure(end.error, call);
  return end.kind === 'ended' ? toModelFailure(new Error('the answer broke off'), call) : null;
}

function whyItEnded(read: StreamEnd, watchdog: AbortSignal, window: AbortSignal): StreamEnd {
  if (watchdog.aborted) return { kind: 'failed', error: watchdog.reason };
  return window.aborted && read.kind !== 'ended' ? { kind: 'stopped' } : read;
}

/** @param runCall null: no call may run, for any answer of the model */
function toSdkTools(
  tools: readonly Tool[],
  durableParts: Promise<readonly Part[]>,
  runCall: ModelCallHooks['runCall'] | null,
): ToolSet {
  const taken = new Set<number>();
  // Providers reuse call ids, so each execution takes the first untaken call with its id and name.
  const place = (parts: readonly Part[], toolCallId: string, toolName: string): PlacedCall => {
    for (const [index, part] of parts.entries()) {
      if (part.type !== 'tool' || part.toolCallId !== toolCallId || part.toolName !== toolName) continue;
      if (part.state !== 'pending' || taken.has(index)) continue;
      taken.add(index);
      return { index, part };
    }
    throw new BatonError('internal', `the response has no call ${toolCallId} of ${toolName}`);
  };
  return Object.fromEntries(
    tools.map((definition) => [
      definition.name,
      dynamicTool({
        description: definition.description,
        inputSchema: toSdkSchema(definition.inputSchema),
        // The SDK needs a return value, but this one is not read.
        execute: async (_input, { toolCallId }) =>
          runCall === null ? NOT_RUN_AT_LIMIT : runCall(place(await durableParts, toolCallId, definition.name)),
      }),
    ]),
  );
}
