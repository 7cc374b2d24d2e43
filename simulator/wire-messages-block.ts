import { z } from 'zod';
import type { SimulatedMessage } from './request.ts';
import { countText, FRAMING, MEDIA_TOKENS } from './tokens.ts';
import { type Violation, violation } from './violation.ts';
import { message, type ReadItem } from './wire.ts';

const mediaSource = z.union([
  z.strictObject({ type: z.literal('base64'), media_type: z.string(), data: z.string().min(1) }),
  z.strictObject({ type: z.literal('url'), url: z.url() }),
  z.strictObject({ type: z.literal('text'), media_type: z.literal('text/plain'), data: z.string().min(1) }),
]);

const text = z.looseObject({ type: z.literal('text'), text: z.string() });
const image = z.looseObject({ type: z.literal('image'), source: mediaSource });
const document = z.looseObject({ type: z.literal('document'), source: mediaSource });
const toolResult = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(z.discriminatedUnion('type', [text, image, document]))]).optional(),
  is_error: z.boolean().optional(),
});
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const thinking = z.strictObject({
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: z.string().optional(),
});
const redactedThinking = z.strictObject({ type: z.literal('redacted_thinking'), data: z.string() });

const userBlock = z.discriminatedUnion('type', [text, image, document, toolResult]);
const assistantBlock = z.discriminatedUnion('type', [text, toolUse, thinking, redactedThinking]);
const placedBlock = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('user'), block: userBlock }),
  z.strictObject({ role: z.literal('assistant'), block: assistantBlock }),
  z.strictObject({ role: z.literal('system'), block: text }),
]);
type PlacedBlock = z.infer<typeof placedBlock>;
type Block = PlacedBlock['block'];

/** Reads a content block, given as `{role, block}` without its cache mark. */
export function readBlock(json: unknown): ReadItem {
  const parsed = placedBlock.safeParse(json);
  if (!parsed.success) {
    const problems = [violation('shape', `{path}: ${fieldText(parsed.error)}`)];
    return { kind: 'other', message: message({ role: 'user' }), tokens: FRAMING.message, problems };
  }
  const { role, block } = parsed.data;
  return {
    kind: role === 'system' ? 'system' : 'message',
    message: toMessage(role === 'assistant' ? 'assistant' : 'user', block),
    tokens: tokensOf(block),
    problems: problemsOf(block),
  };
}

function toMessage(role: 'user' | 'assistant', block: Block): SimulatedMessage {
  switch (block.type) {
    case 'text':
      return message({ role, text: block.text, parts: [{ type: 'text', text: block.text }] });
    case 'image':
    case 'document':
      return message({ role, parts: [{ type: 'file', name: block.type }] });
    case 'tool_result':
      return message({ role: 'tool', toolResults: [{ id: block.tool_use_id, output: resultText(block) }] });
    case 'tool_use':
      return message({ role, toolCalls: [{ id: block.id, name: block.name, input: block.input }] });
    case 'thinking':
      return message({
        role,
        parts: [{ type: 'reasoning', encryptedContent: block.signature, summary: block.thinking }],
      });
    case 'redacted_thinking':
      return message({ role, parts: [{ type: 'reasoning', encryptedContent: block.data, summary: '' }] });
  }
}

type ResultBlock = z.infer<typeof toolResult>;

function resultText({ content = '' }: ResultBlock): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`)).join('');
}

function tokensOf(block: Block): number {
  switch (block.type) {
    case 'text':
      return FRAMING.message + countText(block.text);
    case 'image':
    case 'document':
      return MEDIA_TOKENS;
    case 'tool_result':
      return FRAMING.toolResult + resultTokens(block);
    case 'tool_use':
      return FRAMING.toolCall + countText(block.name) + countText(JSON.stringify(block.input));
    case 'thinking':
      return FRAMING.reasoning + countText(block.thinking);
    case 'redacted_thinking':
      return FRAMING.reasoning;
  }
}

function resultTokens({ content = '' }: ResultBlock): number {
  if (typeof content === 'string') return countText(content);
  return content.reduce((sum, part) => sum + (part.type === 'text' ? countText(part.text) : MEDIA_TOKENS), 0);
}

const CALL_ID = /^[a-zA-Z0-9_-]+$/;
const MEDIA_TYPES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'application/pdf'];

/** Valid tool names, in definitions and calls. */
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;

function problemsOf(block: Block): Violation[] {
  switch (block.type) {
    case 'text':
      return blankProblem(block.text);
    case 'tool_result':
      return blankProblem(resultText(block));
    case 'image':
    case 'document':
      return mediaProblems(block.source);
    case 'tool_use':
      return [
        ...(CALL_ID.test(block.id) ? [] : [patternProblem('tool_use.id', CALL_ID)]),
        ...(TOOL_NAME.test(block.name) ? [] : [patternProblem('tool_use.name', TOOL_NAME)]),
      ];
    default:
      return [];
  }
}

function blankProblem(content: string): Violation[] {
  if (content.trim() !== '') return [];
  return [violation('empty', 'messages: text content blocks must contain non-whitespace text ({path})')];
}

function mediaProblems(source: z.infer<typeof mediaSource>): Violation[] {
  if (source.type !== 'base64' || MEDIA_TYPES.includes(source.media_type)) return [];
  return [violation('shape', `{path}.source.base64.media_type: Input should be ${MEDIA_TYPES.join(', ')}`)];
}

export function patternProblem(field: string, pattern: RegExp): Violation {
  return violation('name', `{path}.${field}: String should match pattern '${pattern.source}'`);
}

/** The first invalid field, in the words of the API. */
export function fieldText(error: z.ZodError): string {
  const issue = error.issues[0];
  return issue === undefined ? 'malformed' : `${issue.path.join('.') || 'body'}: ${issue.message}`;
}
