import type { ContentPart, LanguageModelUsage, TextStreamPart, ToolSet } from 'ai';
import { z } from 'zod';
import { parseExactly } from '../domain/exact-json.ts';
import { readArguments } from '../domain/model/call-arguments.ts';
import type { Json, Part, ProviderMetadata, SourcePart, ToolOutput } from '../domain/transcript/message.ts';
import type { Usage } from '../domain/usage.ts';
import { writtenOf } from './wire/written-input.ts';

/** The whole response of one model call as parts: text, reasoning, calls, files and sources in their order. */
export function toParts(content: readonly ContentPart<ToolSet>[]): Part[] {
  const parts: Part[] = [{ type: 'step-start' }];
  for (const item of content) addContent(parts, item);
  return parts;
}

/** Adds what one item of an answer is: parts of its own, or the outcome of a call among `parts`. */
export function addContent(parts: Part[], item: ContentPart<ToolSet>): void {
  switch (item.type) {
    case 'text':
    case 'reasoning':
      parts.push({ type: item.type, text: item.text, ...metadataOf(item.providerMetadata) });
      return;
    case 'tool-call':
      if (!isImageGeneration(item)) parts.push(toToolPart(item));
      return;
    case 'tool-result':
      // While an answer is streamed, the tool first sends previews of the picture.
      if (isImageGeneration(item)) {
        if (item.preliminary !== true) parts.push(...generatedImage(item.output));
        return;
      }
      settleProviderCall(parts, item.toolCallId, {
        state: 'completed',
        output: toToolOutput(item.output),
        providerMetadata: item.providerMetadata,
      });
      return;
    case 'tool-error':
      settleProviderCall(parts, item.toolCallId, {
        state: 'error',
        output: toErrorOutput(item.error),
        providerMetadata: item.providerMetadata,
      });
      return;
    case 'file':
    case 'reasoning-file':
      parts.push(toFilePart(item));
      return;
    case 'source':
      parts.push(toSourcePart(item));
      return;
    default:
      // Approval requests and provider-specific content do not occur: the SDK is configured without approvals.
      return;
  }
}

type SdkToolCall = Extract<TextStreamPart<ToolSet>, { type: 'tool-call' }>;

/** A call of a tool that is not offered, or with arguments that are no object, has its outcome and never starts. */
export function toToolPart(call: SdkToolCall): Extract<Part, { type: 'tool' }> {
  const written = writtenOf(call.input);
  const { input, problem } =
    written === null ? { input: toJsonValue(call.input), problem: null } : readArguments(written);
  const output = call.invalid === true ? toErrorOutput(call.error) : problem === null ? null : toErrorOutput(problem);
  return {
    type: 'tool',
    toolCallId: call.toolCallId,
    toolName: call.toolName,
    input,
    ...(output === null ? { state: 'pending' as const } : { state: 'error' as const, output }),
    ...(call.providerExecuted === true ? { providerExecuted: true } : {}),
    ...metadataOf(call.providerMetadata),
  };
}

type SdkFile = Extract<TextStreamPart<ToolSet>, { type: 'file' | 'reasoning-file' }>;

/** A file of the model. Its bytes are in the URL until it is stored as a blob. */
function toFilePart({ file: { mediaType, base64 }, providerMetadata }: SdkFile): Part {
  return { type: 'file', mediaType, url: `data:${mediaType};base64,${base64}`, ...metadataOf(providerMetadata) };
}

/**
 * Whether the item belongs to OpenAI's own tool for pictures. The SDK reports a call with base64 in its JSON, but the
 * picture is a file of the answer. (https://platform.openai.com/docs/guides/tools-image-generation)
 */
function isImageGeneration(item: Readonly<{ toolName: string; providerExecuted?: boolean | undefined }>): boolean {
  return item.toolName === 'image_generation' && item.providerExecuted === true;
}

const generatedSchema = z.looseObject({ result: z.base64().min(1) });

/** The picture, whose media type is sniffed from its bytes later. Empty: there is none. */
function generatedImage(output: unknown): Part[] {
  const { data } = generatedSchema.safeParse(output);
  return data === undefined ? [] : [{ type: 'file', mediaType: '', url: `data:;base64,${data.result}` }];
}

/** A source as a part: a URL, or a document by media type and name. */
function toSourcePart(source: Extract<TextStreamPart<ToolSet>, { type: 'source' }>): Part {
  return {
    type: 'source',
    sourceId: source.id,
    ...(source.sourceType === 'url' ? { url: source.url } : documentOf(source)),
    ...(source.title === undefined ? {} : { title: source.title }),
    ...metadataOf(source.providerMetadata),
  };
}

type SdkDocument = Extract<TextStreamPart<ToolSet>, { type: 'source'; sourceType: 'document' }>;

function documentOf({ mediaType, filename }: SdkDocument): Pick<SourcePart, 'mediaType' | 'filename'> {
  return { mediaType, ...(filename !== undefined && { filename }) };
}

/** Adds the result to a call that the provider ran itself. */
function settleProviderCall(
  parts: Part[],
  toolCallId: string,
  {
    state,
    output,
    providerMetadata,
  }: Readonly<{ state: 'completed' | 'error'; output: ToolOutput; providerMetadata: unknown }>,
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

/** A text stays text; any other value becomes JSON. @throws TypeError without a JSON form, as of a circular object */
export function toToolOutput(value: unknown): ToolOutput {
  return typeof value === 'string' ? { type: 'text', value } : toJsonOutput(value);
}

/** @throws TypeError if the value has no JSON form */
export function toJsonOutput(value: unknown): ToolOutput {
  return { type: 'json', value: toJsonValue(value) };
}

/** The error's message alone. Never throws: every value gets a text. */
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
  return text === undefined ? null : (parseExactly(text) as Json);
}

/** JSON has no bigint, but drivers return one for counts and ids. The call has taken effect, so this must not fail. */
function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

function metadataOf(value: unknown): { providerMetadata?: ProviderMetadata } {
  if (value === undefined || value === null) return {};
  return { providerMetadata: JSON.parse(JSON.stringify(value)) as ProviderMetadata };
}

/** The SDK's usage; unreported values count as 0. Cached input is part of the input, never added to it. */
export function toUsage(usage: LanguageModelUsage): Usage {
  const cacheReadTokens = usage.inputTokenDetails.cacheReadTokens ?? 0;
  const cacheWriteTokens = usage.inputTokenDetails.cacheWriteTokens ?? 0;
  const reportedTokens = usage.inputTokens ?? 0;
  // Some gateways bill only the part that was not cached as input. A cached part cannot be larger than the whole.
  const inputTokens =
    cacheReadTokens > reportedTokens ? reportedTokens + cacheReadTokens + cacheWriteTokens : reportedTokens;
  const outputTokens = usage.outputTokens ?? 0;
  return {
    inputTokens,
    outputTokens,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens ?? 0,
    cacheReadTokens,
    cacheWriteTokens,
    totalTokens:
      inputTokens === reportedTokens
        ? (usage.totalTokens ?? reportedTokens + outputTokens)
        : inputTokens + outputTokens,
  };
}
