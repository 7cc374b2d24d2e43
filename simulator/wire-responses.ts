import { z } from 'zod';
import { verifyReasoning } from './encrypted-reasoning.ts';
import type { SimulatedPart } from './request.ts';
import { countText, FRAMING } from './tokens.ts';
import { type Violation, violation } from './violation.ts';
import { message, parseJson, type ReadItem, textOf, type WireMemo, type WireRequest } from './wire.ts';
import { badArguments, emptyContent, partTokens, shapeError, unreadable } from './wire-chat.ts';
import { readFunctionTool } from './wire-tool.ts';

const bodySchema = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(z.unknown())]),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  store: z.boolean().nullish(),
  background: z.boolean().nullish(),
  include: z.array(z.string()).nullish(),
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.unknown().optional(),
  prompt_cache_key: z.string().nullish(),
  user: z.string().nullish(),
  max_output_tokens: z.number().nullish(),
  previous_response_id: z.string().nullish(),
});

const contentSchema = z.union([
  z.string(),
  z.array(
    z.looseObject({
      type: z.string(),
      text: z.string().optional(),
      image_url: z.string().optional(),
      filename: z.string().optional(),
    }),
  ),
]);

const messageSchema = z.looseObject({
  type: z.literal('message').optional(),
  role: z.enum(['system', 'developer', 'user', 'assistant']),
  content: contentSchema,
});
const callSchema = z.looseObject({
  type: z.literal('function_call'),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const outputSchema = z.looseObject({
  type: z.literal('function_call_output'),
  call_id: z.string(),
  output: contentSchema,
});
const reasoningSchema = z.looseObject({
  type: z.literal('reasoning'),
  encrypted_content: z.string().nullish(),
  summary: z.array(z.looseObject({ text: z.string() })),
});
const referenceSchema = z.looseObject({ type: z.literal('item_reference'), id: z.string() });
const searchSchema = z.looseObject({
  type: z.literal('web_search_call'),
  id: z.string(),
  status: z.literal('completed'),
  action: z.looseObject({ type: z.enum(['search', 'open_page', 'find_in_page']) }),
});
const itemSchema = z.union([searchSchema, callSchema, outputSchema, reasoningSchema, referenceSchema, messageSchema]);

/** @throws WireError if the body does not have the protocol's shape. */
export function readResponsesRequest(body: unknown, memo: WireMemo): WireRequest {
  const parsed = bodySchema.safeParse(body);
  if (!parsed.success) throw shapeError(parsed.error);
  const request = parsed.data;
  const input = typeof request.input === 'string' ? [{ role: 'user', content: request.input }] : request.input;
  const instructions = request.instructions ? [{ role: 'system', content: request.instructions }] : [];
  return {
    protocol: 'responses',
    model: request.model,
    stream: request.stream === true,
    includeUsage: true,
    includeEncrypted: request.include?.includes('reasoning.encrypted_content') === true,
    items: [...instructions, ...input].map((each) => memo.item(each, readItem)),
    tools: (request.tools ?? []).map((each) => memo.tool(each, readFunctionTool)),
    cacheKey: request.prompt_cache_key ?? request.user ?? '',
    maxOutputTokens: request.max_output_tokens ?? undefined,
    toolChoice: request.tool_choice,
    problems: requestProblems(request),
    background: request.background === true,
  };
}

function requestProblems(request: z.infer<typeof bodySchema>): Violation[] {
  const problems: string[] = [];
  const isBackground = request.background === true;
  if (isBackground && request.store === false) problems.push("Invalid value for 'store': background requires it.");
  if (!isBackground && request.store !== false) {
    problems.push("Invalid value for 'store': only responses in the background are stored here; it must be false.");
  }
  if (request.previous_response_id) {
    problems.push(`Previous response with id '${request.previous_response_id}' not found.`);
  }
  return problems.map((text) => violation('setting', text));
}

function readItem(json: unknown): ReadItem {
  const parsed = itemSchema.safeParse(json);
  if (!parsed.success) {
    return unreadable("Invalid value: '{path}' is not a supported input item.");
  }
  const item = parsed.data;
  switch (item.type) {
    case 'function_call':
      return readCall(item);
    case 'function_call_output':
      return readOutput(item);
    case 'reasoning':
      return readReasoning(item);
    case 'web_search_call':
      return { kind: 'message', message: message({ role: 'assistant' }), tokens: FRAMING.toolCall, problems: [] };
    case 'item_reference': {
      const problem = `Item with id '${item.id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`;
      const problems = [violation('shape', problem)];
      return { kind: 'reference', message: message({ role: 'assistant' }), tokens: 0, problems };
    }
    default:
      return readMessage(item);
  }
}

function readMessage(item: z.infer<typeof messageSchema>): ReadItem {
  const parts = readParts(item.content);
  const isSystem = item.role === 'system' || item.role === 'developer';
  return {
    kind: isSystem ? 'system' : 'message',
    message: message({ role: item.role === 'assistant' ? 'assistant' : 'user', text: textOf(parts), parts }),
    tokens: FRAMING.message + partTokens(parts),
    problems: emptyContent(parts),
  };
}

function readCall(item: z.infer<typeof callSchema>): ReadItem {
  const input = parseJson(item.arguments);
  const call = { id: item.call_id, name: item.name, input: input === undefined ? item.arguments : input.value };
  return {
    kind: 'message',
    message: message({ role: 'assistant', toolCalls: [call] }),
    tokens: FRAMING.toolCall + countText(item.name) + countText(item.arguments),
    problems: input === undefined ? [badArguments(item.call_id)] : [],
  };
}

function readOutput(item: z.infer<typeof outputSchema>): ReadItem {
  const parts = readParts(item.output);
  return {
    kind: 'message',
    message: message({ role: 'tool', toolResults: [{ id: item.call_id, output: textOf(parts) }], parts }),
    tokens: FRAMING.toolResult + partTokens(parts),
    problems: emptyContent(parts),
  };
}

function readReasoning(item: z.infer<typeof reasoningSchema>): ReadItem {
  const encryptedContent = item.encrypted_content ?? undefined;
  const summary = item.summary.map((each) => each.text).join('\n');
  return {
    kind: 'message',
    message: message({ role: 'assistant', parts: [{ type: 'reasoning', encryptedContent, summary }] }),
    tokens: FRAMING.reasoning + reasoningTokens(encryptedContent, summary),
    problems: [],
  };
}

function reasoningTokens(encrypted: string | undefined, summary: string): number {
  const model = encrypted?.slice('enc_'.length, encrypted.lastIndexOf('_')) ?? '';
  return (encrypted === undefined ? undefined : verifyReasoning(model, encrypted)) ?? countText(summary);
}

function readParts(content: z.infer<typeof contentSchema>): SimulatedPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part): SimulatedPart => {
    if (part.text !== undefined) return { type: 'text', text: part.text };
    if (part.type === 'input_image') return { type: 'image', url: part.image_url ?? '' };
    return { type: 'file', name: part.filename ?? part.type };
  });
}
