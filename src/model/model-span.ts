import { type Attributes, SpanKind } from '@opentelemetry/api';
import type { BatonError } from '../domain/errors.ts';
import type { Usage } from '../domain/usage.ts';
import { failSpan, inSpan } from '../platform/tracing.ts';
import type { ResolvedModel } from './model-port.ts';
import type { ModelPrompt } from './model-prompt.ts';

export type TracedRequest = Readonly<{
  resolved: Pick<ResolvedModel, 'provider' | 'modelId'>;
  /** In the form of the API. */
  sessionId: string;
  maxOutputTokens: number;
  temperature?: number | undefined;
  /** Whether the span may hold prompt and answer. */
  withContent: boolean;
  prompt: () => ModelPrompt;
}>;

export type TracedAnswer = Readonly<{ finishReason: string; usage: Usage; text: () => string }>;

export type ModelSpan = Readonly<{
  /** The answer is whole, and the span ends: tools may follow. */
  answered: (answer: TracedAnswer) => void;
  /** There is no whole answer. */
  broken: (error: BatonError | string) => void;
}>;

/**
 * Asks a model inside a span by the conventions for generative AI; tools that run meanwhile have spans below it. The
 * SDK's own integration copies error texts, which may hold the prompt, and knows no calls that are repeated after a
 * crash. (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/)
 */
export function inModelSpan<T>(request: TracedRequest, work: (span: ModelSpan) => Promise<T>): Promise<T> {
  const { resolved, temperature } = request;
  const attributes: Attributes = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': resolved.provider,
    'gen_ai.request.model': resolved.modelId,
    'gen_ai.request.max_tokens': request.maxOutputTokens,
    'gen_ai.conversation.id': request.sessionId,
    'gen_ai.output.type': 'text',
    ...(temperature !== undefined && { 'gen_ai.request.temperature': temperature }),
  };
  return inSpan(`chat ${resolved.modelId}`, { kind: SpanKind.CLIENT, attributes }, async (span) => {
    const format = request.withContent && span.isRecording() ? await loadFormat() : null;
    if (format !== null) span.setAttributes(inputOf(request.prompt(), format));
    return work({
      answered: (answer) => {
        span.setAttributes(outputOf(answer, format));
        if (span.isRecording()) span.end();
      },
      broken: (error) => failSpan(span, error),
    });
  });
}

type Format = typeof import('@ai-sdk/otel');

/** Loaded only where spans hold prompts. */
const loadFormat = (): Promise<Format> => import('@ai-sdk/otel');

function inputOf({ instructions, messages }: ModelPrompt, { formatModelMessages }: Format): Attributes {
  const system = typeof instructions === 'string' ? instructions : JSON.stringify(instructions ?? '');
  return {
    'gen_ai.system_instructions': JSON.stringify([{ type: 'text', content: system }]),
    'gen_ai.input.messages': JSON.stringify(formatModelMessages({ prompt: undefined, messages })),
  };
}

/** @param format null: the answer stays out of the span */
function outputOf({ finishReason, usage, text }: TracedAnswer, format: Format | null): Attributes {
  return {
    'gen_ai.response.finish_reasons': [finishReason],
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens,
    'gen_ai.usage.cache_write.input_tokens': usage.cacheWriteTokens,
    ...(format !== null && {
      'gen_ai.output.messages': JSON.stringify(format.formatOutputMessages({ text: text(), finishReason })),
    }),
  };
}

/** Runs a tool inside a span. `fail` marks the span as failed. */
export function inToolSpan<T>(
  call: Readonly<{ tool: string; toolCallId: string; input: unknown; withContent: boolean }>,
  work: (fail: () => void) => Promise<T>,
): Promise<T> {
  const attributes: Attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': call.tool,
    'gen_ai.tool.call.id': call.toolCallId,
    'gen_ai.tool.type': 'function',
    ...(call.withContent && { 'gen_ai.tool.call.arguments': JSON.stringify(call.input) }),
  };
  return inSpan(`execute_tool ${call.tool}`, { attributes }, (span) => work(() => failSpan(span, 'tool_error')));
}
