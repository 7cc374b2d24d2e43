import type { ContentPart, LanguageModelUsage, TextStreamPart, ToolSet } from 'ai';
import { type Json, jsonSchema, type Part, type ProviderMetadata, type ToolOutput } from '../domain/message.ts';
import type { Usage } from '../domain/usage.ts';

/** The whole response of one model call as our parts: text, reasoning, calls, files and sources in their order. */
export function toParts(content: readonly ContentPart<ToolSet>[]): Part[] {
  const parts: Part[] = [{ type: 'step-start' }];
  for (const item of content) addContent(parts, item);
  return parts;
}

function addContent(parts: Part[], item: ContentPart<ToolSet>): void {
  switch (item.type) {
    case 'text':
    case 'reasoning':
      parts.push({ type: item.type, text: item.text, ...metadataOf(item.providerMetadata) });
      return;
    case 'tool-call':
      parts.push(toToolPart(item));
      return;
    case 'tool-result':
      settleProviderCall(parts, item.toolCallId, 'completed', toToolOutput(item.output), item.providerMetadata);
      return;
    case 'tool-error':
      settleProviderCall(parts, item.toolCallId, 'error', toErrorOutput(item.error), item.providerMetadata);
      return;
    case 'file':
    case 'reasoning-file':
      parts.push({
        type: 'file',
        mediaType: item.file.mediaType,
        url: `data:${item.file.mediaType};base64,${item.file.base64}`,
        ...metadataOf(item.providerMetadata),
      });
      return;
    case 'source':
      parts.push(toSourcePart(item));
      return;
    default:
      // Approval requests and provider-specific content do not come up: no approval is configured with the SDK.
      return;
  }
}

type SdkToolCall = Extract<TextStreamPart<ToolSet>, { type: 'tool-call' }>;

/** A call as the model made it. One that the SDK found invalid has its outcome already and never starts. */
export function toToolPart(call: SdkToolCall): Extract<Part, { type: 'tool' }> {
  return {
    type: 'tool',
    toolCallId: call.toolCallId,
    toolName: call.toolName,
    input: toJsonValue(call.input),
    ...(call.invalid === true
      ? { state: 'error' as const, output: toErrorOutput(call.error) }
      : { state: 'pending' as const }),
    ...(call.providerExecuted === true ? { providerExecuted: true } : {}),
    ...metadataOf(call.providerMetadata),
  };
}

export function toSourcePart(source: Extract<TextStreamPart<ToolSet>, { type: 'source' }>): Part {
  return {
    type: 'source',
    sourceId: source.id,
    ...(source.sourceType === 'url' ? { url: source.url } : { mediaType: source.mediaType }),
    ...(source.title === undefined ? {} : { title: source.title }),
    ...metadataOf(source.providerMetadata),
  };
}

/** Folds the result of a call that the provider ran itself into the call. */
export function settleProviderCall(
  parts: Part[],
  toolCallId: string,
  state: 'completed' | 'error',
  output: ToolOutput,
  providerMetadata: unknown,
): void {
  const index = parts.findLastIndex((part) => part.type === 'tool' && part.toolCallId === toolCallId);
  const call = parts[index];
  if (call?.type !== 'tool' || call.providerExecuted !== true) return;
  const { providerMetadata: resultProviderMetadata } = metadataOf(providerMetadata);
  parts[index] = {
    ...call,
    state,
    output,
    ...(resultProviderMetadata === undefined ? {} : { resultProviderMetadata }),
  };
}

/**
 * What a tool returned in the form that the model is shown: text stays text, everything else is JSON.
 * @throws TypeError when it has no JSON form, such as a circular object
 */
export function toToolOutput(value: unknown): ToolOutput {
  return typeof value === 'string' ? { type: 'text', value } : toJsonOutput(value);
}

/** Any value as JSON. @throws TypeError when it has no JSON form */
export function toJsonOutput(value: unknown): ToolOutput {
  return { type: 'json', value: toJsonValue(value) };
}

/** An error in the form that the model is shown: its message only. Whatever was thrown, this never throws. */
export function toErrorOutput(error: unknown): ToolOutput {
  return { type: 'error-text', value: messageOf(error) };
}

function messageOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  try {
    if ('message' in error && typeof error.message === 'string') return error.message;
    return JSON.stringify(error) ?? 'The call failed.';
  } catch {
    return 'The call failed.';
  }
}

function toJsonValue(value: unknown): Json {
  const text = JSON.stringify(value, bigintAsText);
  return text === undefined ? null : jsonSchema.parse(JSON.parse(text));
}

/** JSON has no bigint: drivers return them for counts and ids, and the call has had its effect by then. */
function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

function metadataOf(value: unknown): { providerMetadata?: ProviderMetadata } {
  if (value === undefined || value === null) return {};
  return { providerMetadata: JSON.parse(JSON.stringify(value)) as ProviderMetadata };
}

/** The SDK's usage; what a provider does not report counts as 0. Cached input is part of the input, never added to it. */
export function toUsage(usage: LanguageModelUsage): Usage {
  const inputTokens = usage.inputTokens ?? 0;
  const outputTokens = usage.outputTokens ?? 0;
  return {
    inputTokens,
    outputTokens,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens ?? 0,
    cacheReadTokens: usage.inputTokenDetails.cacheReadTokens ?? 0,
    cacheWriteTokens: usage.inputTokenDetails.cacheWriteTokens ?? 0,
    totalTokens: usage.totalTokens ?? inputTokens + outputTokens,
  };
}
