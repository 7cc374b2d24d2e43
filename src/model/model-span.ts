import { type Attributes, SpanKind } from '@opentelemetry/api';
import type { BatonError } from '../domain/errors.ts';
import { type ModelSettings, takesSetting } from '../domain/model/model-settings.ts';
import { telemetryProvider } from '../domain/model/telemetry-provider.ts';
import type { Part } from '../domain/transcript/message.ts';
import type { Usage } from '../domain/usage.ts';
import { addressOf, failSpan, inSpan, usageAttributes } from '../platform/tracing.ts';
import type { Tool } from '../tools/tool.ts';
import type { ResolvedModel } from './model-port.ts';
import type { ModelPrompt } from './model-prompt.ts';

export type TracedRequest = Readonly<{
  resolved: Pick<ResolvedModel, 'provider' | 'modelId' | 'endpoint' | 'protocol'>;
  /** In the form of the API. */
  sessionId: string;
  maxOutputTokens: number;
  settings: ModelSettings;
  /** The answer has to be JSON. */
  isJson?: boolean;
  /** Whether the span may hold prompt and answer. */
  withContent: boolean;
  prompt: () => ModelPrompt;
  tools: readonly Tool[];
}>;

export type TracedAnswer = Readonly<{
  finishReason: string;
  usage: Usage;
  parts: () => readonly Part[];
  firstTokenMs: number | null;
  /** As the provider names the response, and the model that made it. */
  responseId?: string | undefined;
  model?: string | undefined;
}>;

export type ModelSpan = Readonly<{
  /** The answer is whole, and the span ends: tools may follow. */
  answered: (answer: TracedAnswer) => void;
  /** There is no whole answer. */
  broken: (error: BatonError | string) => void;
}>;

/**
 * Asks a model inside a span by the conventions for generative AI; tools that run meanwhile have spans below it. The
 * SDK's own integration copies error texts, which may hold the prompt, and knows no calls that are repeated after a
 * crash. (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md)
 */
export function inModelSpan<T>(request: TracedRequest, work: (span: ModelSpan) => Promise<T>): Promise<T> {
  const { modelId } = request.resolved;
  return inSpan(`chat ${modelId}`, { kind: SpanKind.CLIENT, attributes: requestOf(request) }, async (span) => {
    const withContent = request.withContent && span.isRecording();
    if (withContent) span.setAttributes(await inputOf(request));
    return work({
      answered: (answer) => {
        span.setAttributes(answerOf(answer));
        if (withContent) span.setAttribute('gen_ai.output.messages', JSON.stringify([outputOf(answer)]));
        if (span.isRecording()) span.end();
      },
      broken: (error) => failSpan(span, error),
    });
  });
}

/** A setting for which the protocol has no field is not sent. */
function requestOf({ resolved, settings, sessionId, maxOutputTokens, isJson }: TracedRequest): Attributes {
  const { temperature, topP, topK, seed, stopSequences } = settings;
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': telemetryProvider(resolved.provider, resolved.endpoint),
    'gen_ai.request.model': resolved.modelId,
    'gen_ai.request.max_tokens': maxOutputTokens,
    'gen_ai.request.stream': true,
    'gen_ai.conversation.id': sessionId,
    'gen_ai.output.type': isJson === true ? 'json' : 'text',
    ...addressOf(resolved.endpoint),
    ...(temperature !== undefined && { 'gen_ai.request.temperature': temperature }),
    ...(topP !== undefined && { 'gen_ai.request.top_p': topP }),
    ...(topK !== undefined && takesSetting(resolved.protocol, 'topK') && { 'gen_ai.request.top_k': topK }),
    ...(seed !== undefined && takesSetting(resolved.protocol, 'seed') && { 'gen_ai.request.seed': seed }),
    ...(stopSequences !== undefined &&
      takesSetting(resolved.protocol, 'stopSequences') && { 'gen_ai.request.stop_sequences': [...stopSequences] }),
  };
}

async function inputOf({ prompt, tools }: TracedRequest): Promise<Attributes> {
  // Loaded only where spans hold prompts.
  const { formatModelMessages } = await import('@ai-sdk/otel');
  const { instructions = [], messages } = prompt();
  const system = [instructions].flat().map((text) => (typeof text === 'string' ? text : text.content));
  const offered = tools.map(({ name, description }) => ({ type: 'function', name, description }));
  return {
    'gen_ai.system_instructions': JSON.stringify(system.map((content) => ({ type: 'text', content }))),
    'gen_ai.input.messages': JSON.stringify(formatModelMessages({ prompt: undefined, messages })),
    'gen_ai.tool.definitions': JSON.stringify(offered),
  };
}

function answerOf({ finishReason, usage, firstTokenMs, responseId, model }: TracedAnswer): Attributes {
  return {
    'gen_ai.response.finish_reasons': [finishReason],
    ...(responseId !== undefined && { 'gen_ai.response.id': responseId }),
    ...(model !== undefined && { 'gen_ai.response.model': model }),
    ...(firstTokenMs !== null && { 'gen_ai.response.time_to_first_chunk': firstTokenMs / 1_000 }),
    ...usageAttributes(usage),
  };
}

const FINISH_REASONS: Readonly<Record<string, string>> = {
  'tool-calls': 'tool_call',
  'content-filter': 'content_filter',
};

/** The answer with its calls and its reasoning, as a message of the conventions. */
function outputOf({ finishReason, parts }: TracedAnswer) {
  const finish_reason = FINISH_REASONS[finishReason] ?? finishReason;
  return { role: 'assistant', parts: parts().flatMap(toOutputPart), finish_reason };
}

function toOutputPart(part: Part): object[] {
  switch (part.type) {
    case 'text':
    case 'reasoning':
      return part.text === '' ? [] : [{ type: part.type, content: part.text }];
    case 'tool': {
      const { toolCallId: id, toolName: name, input } = part;
      if (part.providerExecuted !== true) return [{ type: 'tool_call', id, name, arguments: input }];
      return [{ type: 'server_tool_call', id, name, server_tool_call: { type: name, arguments: input } }];
    }
    case 'file':
      return [{ type: 'uri', modality: part.mediaType.split('/')[0], mime_type: part.mediaType, uri: part.url }];
    default:
      return [];
  }
}

type TracedCall = Readonly<{
  tool: Pick<Tool, 'name' | 'description'>;
  /** The provider's, which messages of the model name. */
  toolCallId: string;
  /** The id of the call in the API. */
  callId: string;
  input: unknown;
  withContent: boolean;
}>;

/** `failed`: marks the span as failed. `returned`: the result, which the span holds where it may hold what is said. */
export type ToolSpan = Readonly<{ failed: () => void; returned: (result: unknown) => void }>;

/** Runs a tool inside a span. */
export function inToolSpan<T>(call: TracedCall, work: (span: ToolSpan) => Promise<T>): Promise<T> {
  const { name, description } = call.tool;
  const attributes: Attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': name,
    'gen_ai.tool.description': description,
    'gen_ai.tool.call.id': call.toolCallId,
    'gen_ai.tool.type': 'function',
    'baton.call_id': call.callId,
    ...(call.withContent && { 'gen_ai.tool.call.arguments': JSON.stringify(call.input) }),
  };
  return inSpan(`execute_tool ${name}`, { attributes }, (span) =>
    work({
      failed: () => failSpan(span, 'tool_error'),
      returned(result) {
        if (call.withContent) span.setAttribute('gen_ai.tool.call.result', JSON.stringify(result));
      },
    }),
  );
}
