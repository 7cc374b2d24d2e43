import { z } from 'zod';
import type { SimulatedPart, SimulatedToolCall } from './request.ts';
import { countText, FRAMING, MEDIA_TOKENS } from './tokens.ts';
import { type Violation, violation } from './violation.ts';
import { message, parseJson, type ReadItem, textOf, WireError, type WireMemo, type WireRequest } from './wire.ts';
import { readFunctionTool } from './wire-tool.ts';

const bodySchema = z.looseObject({
  model: z.string(),
  messages: z.array(z.unknown()),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  tools: z.array(z.looseObject({ type: z.string(), function: z.unknown().optional() })).nullish(),
  tool_choice: z.unknown().optional(),
  prompt_cache_key: z.string().nullish(),
  user: z.string().nullish(),
  max_tokens: z.number().nullish(),
  max_completion_tokens: z.number().nullish(),
});

const contentSchema = z.union([
  z.string(),
  z.array(
    z.looseObject({
      type: z.string(),
      text: z.string().optional(),
      image_url: z.looseObject({ url: z.string() }).optional(),
      file: z.looseObject({ filename: z.string().optional() }).optional(),
    }),
  ),
]);

const messageSchema = z.discriminatedUnion('role', [
  z.looseObject({ role: z.enum(['system', 'developer']), content: contentSchema }),
  z.looseObject({ role: z.literal('user'), content: contentSchema }),
  z.looseObject({
    role: z.literal('assistant'),
    content: contentSchema.nullish(),
    tool_calls: z
      .array(
        z.looseObject({
          id: z.string(),
          type: z.literal('function'),
          function: z.looseObject({ name: z.string(), arguments: z.string() }),
        }),
      )
      .nullish(),
  }),
  z.looseObject({ role: z.literal('tool'), tool_call_id: z.string(), content: contentSchema }),
]);

/** @throws WireError if the body does not have the protocol's shape. */
export function readChatRequest(body: unknown, memo: WireMemo): WireRequest {
  const parsed = bodySchema.safeParse(body);
  if (!parsed.success) throw shapeError(parsed.error);
  const request = parsed.data;
  return {
    protocol: 'chat',
    model: request.model,
    stream: request.stream === true,
    includeUsage: request.stream_options?.include_usage === true,
    includeEncrypted: false,
    items: request.messages.map((each) => memo.item(each, readMessage)),
    tools: (request.tools ?? []).map((each) => memo.tool(each.function, readFunctionTool)),
    cacheKey: request.prompt_cache_key ?? request.user ?? '',
    maxOutputTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    toolChoice: request.tool_choice,
    problems: [],
  };
}

/** The error of a body that does not have the protocol's shape, naming the first invalid field. */
export function shapeError(error: z.ZodError): WireError {
  const issue = error.issues[0];
  const param = issue === undefined ? null : issue.path.join('.');
  return new WireError(`Invalid value for '${param ?? 'body'}': ${issue?.message ?? 'malformed'}.`, param, {
    cause: error,
  });
}

function readMessage(json: unknown): ReadItem {
  const parsed = messageSchema.safeParse(json);
  if (!parsed.success) {
    const problem = `Invalid value: '{path}' is not a valid message: ${parsed.error.issues[0]?.message ?? 'malformed'}.`;
    return unreadable(problem);
  }
  const wire = parsed.data;
  switch (wire.role) {
    case 'assistant':
      return readAssistant(wire);
    case 'tool':
      return readToolResult(wire.tool_call_id, wire.content);
    default:
      return readPrompt(wire.role === 'user' ? 'message' : 'system', wire.content);
  }
}

/** An item that the protocol does not have. */
export function unreadable(problem: string): ReadItem {
  return {
    kind: 'other',
    message: message({ role: 'user' }),
    tokens: FRAMING.message,
    problems: [violation('shape', problem)],
  };
}

type Content = z.infer<typeof contentSchema>;

function readPrompt(kind: 'message' | 'system', content: Content): ReadItem {
  const parts = readParts(content);
  return {
    kind,
    message: message({ role: 'user', text: textOf(parts), parts }),
    tokens: FRAMING.message + partTokens(parts),
    problems: emptyContent(parts),
  };
}

function readAssistant(wire: Extract<z.infer<typeof messageSchema>, { role: 'assistant' }>): ReadItem {
  const isEmpty = wire.content === null || wire.content === undefined || wire.content === '';
  const parts = isEmpty ? [] : readParts(wire.content ?? '');
  const calls = wire.tool_calls ?? [];
  const problems: Violation[] = [];
  if (isEmpty && calls.length === 0) {
    const text = "Invalid value: '{path}' has neither content nor tool_calls: content must be non-empty.";
    problems.push(violation('empty', text));
  } else if (!isEmpty) {
    problems.push(...emptyContent(parts));
  }
  const toolCalls: SimulatedToolCall[] = calls.map((call) => {
    const input = parseJson(call.function.arguments);
    if (input === undefined) problems.push(badArguments(call.id));
    return {
      id: call.id,
      name: call.function.name,
      input: input === undefined ? call.function.arguments : input.value,
    };
  });
  const callTokens = calls.map(
    (call) => FRAMING.toolCall + countText(call.function.name) + countText(call.function.arguments),
  );
  return {
    kind: 'message',
    message: message({ role: 'assistant', text: textOf(parts), parts, toolCalls }),
    tokens: FRAMING.message + partTokens(parts) + callTokens.reduce((sum, each) => sum + each, 0),
    problems,
  };
}

function readToolResult(id: string, content: Content): ReadItem {
  const parts = readParts(content);
  return {
    kind: 'message',
    message: message({ role: 'tool', toolResults: [{ id, output: textOf(parts) }], parts }),
    tokens: FRAMING.toolResult + partTokens(parts),
    problems: emptyContent(parts),
  };
}

function readParts(content: Content): SimulatedPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part): SimulatedPart => {
    if (part.image_url !== undefined) return { type: 'image', url: part.image_url.url };
    if (part.type === 'text') return { type: 'text', text: part.text ?? '' };
    return { type: 'file', name: part.file?.filename ?? part.type };
  });
}

/** Tokens of content parts, without framing. */
export function partTokens(parts: readonly SimulatedPart[]): number {
  return parts.reduce((sum, part) => sum + (part.type === 'text' ? countText(part.text) : MEDIA_TOKENS), 0);
}

export function emptyContent(parts: readonly SimulatedPart[]): Violation[] {
  const isEmpty = parts.length === 0 || parts.some((part) => part.type === 'text' && part.text === '');
  return isEmpty
    ? [violation('empty', "Invalid value: '{path}' has empty content: text content must be non-empty.")]
    : [];
}

export function badArguments(id: string): Violation {
  return violation('shape', `Invalid 'arguments' in '{path}': tool call ${id} is not valid JSON.`);
}
