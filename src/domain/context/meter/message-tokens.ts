import { itemsForModel, outputForModel, wireInput } from '../../model/model-calls.ts';
import { EMPTY_MESSAGE, frameSummary, isBlank } from '../../model/model-frames.ts';
import type { ModelAssistantPart, ModelReasoningPart } from '../../model/model-message.ts';
import { keepValidReasoning } from '../../model/model-reasoning.ts';
import { requestParts } from '../../model/shown-parts.ts';
import type { Json, OutputItem, Part, ToolPart, ViewMessage } from '../../transcript/message.ts';
import { estimateFile } from './file-tokens.ts';
import type { TokenCounter } from './tokens.ts';

export const MESSAGE_TOKEN_KINDS = [
  'user',
  'assistant',
  'reasoning',
  'toolCalls',
  'toolResults',
  'files',
  'summary',
] as const;
type MessageTokenKind = (typeof MESSAGE_TOKEN_KINDS)[number];

export type MessageTokens = Readonly<Record<MessageTokenKind, number>>;

const NO_MESSAGE_TOKENS: MessageTokens = {
  user: 0,
  assistant: 0,
  reasoning: 0,
  toolCalls: 0,
  toolResults: 0,
  files: 0,
  summary: 0,
};

// Tokens that providers add around content. Fitted to the bills of a recorded session of 465 calls, where a call and
// its result cost 30 to 60 tokens beyond their texts.
const MESSAGE_FRAME_TOKENS = 4;
const TOOL_CALL_FRAME_TOKENS = 36;
const TOOL_RESULT_FRAME_TOKENS = 9;

const BASE64_CHARS_PER_BYTE = 4 / 3;

export type MessageTokensOptions = Readonly<{
  /** Only this model's own reasoning counts. Default: the model that wrote the message. */
  model?: string;
}>;

/** Estimated tokens of a message as `toModelMessages` shows it, framing included. Unsent content counts nothing. */
export function estimateMessage(
  message: ViewMessage,
  count: TokenCounter,
  options: MessageTokensOptions = {},
): MessageTokens {
  const tokens = { ...NO_MESSAGE_TOKENS };
  const role = message.role;
  tokens[role] += MESSAGE_FRAME_TOKENS;
  for (const part of requestParts(message)) {
    if (part.type === 'text' && !isBlank(part.text)) tokens[role] += count(part.text);
    else if (part.type === 'file' && role === 'user') tokens.files += estimateFile(part, count);
    else if (part.type === 'compaction' && !isBlank(part.text)) tokens.summary += count(frameSummary(part.text));
    else if (part.type === 'tool' && role === 'assistant') {
      tokens.toolCalls += estimateToolCall(part, count);
      tokens.toolResults += estimateToolResult(part, count);
    }
  }
  for (const part of replayedReasoning(message, options.model)) tokens.reasoning += estimateReasoning(part, count);
  const isEmpty = totalOf(tokens) === MESSAGE_FRAME_TOKENS;
  if (role === 'user' && isEmpty) tokens.user += count(EMPTY_MESSAGE);
  return tokens;
}

export function totalOf(tokens: MessageTokens): number {
  return MESSAGE_TOKEN_KINDS.reduce((sum, kind) => sum + tokens[kind], 0);
}

export function sumOf(estimates: Iterable<MessageTokens>): MessageTokens {
  const sum = { ...NO_MESSAGE_TOKENS };
  for (const tokens of estimates) {
    sum.user += tokens.user;
    sum.assistant += tokens.assistant;
    sum.reasoning += tokens.reasoning;
    sum.toolCalls += tokens.toolCalls;
    sum.toolResults += tokens.toolResults;
    sum.files += tokens.files;
    sum.summary += tokens.summary;
  }
  return sum;
}

/** Estimated tokens of a call without its result. Ignores marks. */
export function estimateToolCall(part: ToolPart, count: TokenCounter): number {
  return TOOL_CALL_FRAME_TOKENS + count(part.toolName) + countJson(wireInput(part.input), count);
}

/** Estimated tokens of a call's result as the model reads it. Ignores marks. */
export function estimateToolResult(part: ToolPart, count: TokenCounter): number {
  const output = outputForModel(part);
  const items = itemsForModel(part);
  if (output.type === 'content' || items.some(({ type }) => type === 'file')) {
    return TOOL_RESULT_FRAME_TOKENS + items.reduce((sum, item) => sum + estimateItem(item, count), 0);
  }
  if (output.type === 'json') return TOOL_RESULT_FRAME_TOKENS + countJson(output.value, count);
  const text = output.type === 'execution-denied' ? (output.reason ?? output.type) : output.value;
  return TOOL_RESULT_FRAME_TOKENS + count(text);
}

const countJson = (value: Json, count: TokenCounter): number => count(JSON.stringify(value));

function estimateItem(item: OutputItem, count: TokenCounter): number {
  return item.type === 'text' ? count(item.text) : estimateFile(item, count);
}

/** Reasoning that is sent back to the model: signed, followed by the part that it led to, and written by this model. */
export function replayedReasoning(message: ViewMessage, model?: string): ModelReasoningPart[] {
  if (message.role !== 'assistant' || (model !== undefined && message.model !== model)) return [];
  if (!message.parts.some((part) => part.type === 'reasoning')) return [];
  const ordered = [...message.parts.filter((part) => part.type !== 'tool'), ...message.parts.filter(isTool)];
  const kept = keepValidReasoning(ordered.flatMap(toAssistantPart));
  return kept.filter((part) => part.type === 'reasoning');
}

const isTool = (part: Part): part is ToolPart => part.type === 'tool';

function toAssistantPart(part: Part): ModelAssistantPart[] {
  if (part.type === 'text') return isBlank(part.text) ? [] : [{ type: 'text', text: part.text }];
  if (part.type === 'tool') {
    const { toolCallId, toolName, input } = part;
    return [{ type: 'tool-call', toolCallId, toolName, input }];
  }
  if (part.type !== 'reasoning') return [];
  const { text, providerMetadata } = part;
  return [{ type: 'reasoning', text, ...(providerMetadata !== undefined && { providerOptions: providerMetadata }) }];
}

/** Keys under which providers keep hidden reasoning. The text beside it, if any, is only a summary. */
const HIDDEN_REASONING_KEYS = ['reasoningEncryptedContent', 'encryptedContent', 'redactedData'] as const;
const ENCRYPTION_BYTES = 650;
const BYTES_PER_TOKEN = 4;

function estimateReasoning(part: ModelReasoningPart, count: TokenCounter): number {
  const hidden = Object.values(part.providerOptions ?? {}).flatMap((values) =>
    HIDDEN_REASONING_KEYS.map((key) => values[key]).filter((value) => typeof value === 'string'),
  );
  const bytes = hidden.reduce((sum, value) => sum + value.length / BASE64_CHARS_PER_BYTE - ENCRYPTION_BYTES, 0);
  return Math.max(count(part.text), Math.ceil(bytes / BYTES_PER_TOKEN));
}
