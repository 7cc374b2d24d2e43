import { createHash } from 'node:crypto';
import type { Adaptation, AdaptationKind } from '../../domain/model/remedies/adaptation.ts';
import type { ModelProtocol } from '../../domain/model/shown-media.ts';
import { type Fields, isFields, readExactly } from './read-json.ts';
import { simpleSchema } from './simple-schema.ts';

/** In place of the signature of a thinking block that came without one, or with an empty one. */
export const UNSIGNED = { absent: 'baton:unsigned', empty: 'baton:empty' } as const;

/** Google documents it for calls of other models. https://ai.google.dev/gemini-api/docs/thought-signatures */
const DUMMY_SIGNATURE = 'skip_thought_signature_validator';
/** Stands where an endpoint wants a text and there was none. */
const NO_THOUGHTS = '.';
const BRIDGE = '…';
const CALL_FIELDS = ['id', 'tool_call_id', 'call_id', 'tool_use_id'];

/** The body of a request with the changes that its endpoint has asked for. Any other text stays as it is. */
export function adaptBody(text: string, protocol: ModelProtocol, adaptations: readonly Adaptation[]): string {
  const signed = protocol === 'anthropic-messages' ? withoutMadeUpSignatures(text) : text;
  if (adaptations.length === 0) return signed;
  const body = readExactly(signed);
  if (!isFields(body)) return signed;
  const adapted = adaptations.reduce((left, { kind, detail }) => CHANGES[kind](left, detail, protocol), body);
  return JSON.stringify(adapted);
}

/** The quotes of a text are escaped, so that only the blocks match. */
const withoutMadeUpSignatures = (text: string): string =>
  text
    .replaceAll(`,"signature":"${UNSIGNED.absent}"`, '')
    .replaceAll(`"signature":"${UNSIGNED.empty}"`, '"signature":""');

type Change = (body: Fields, detail: string, protocol: ModelProtocol) => Fields;

const CHANGES: Readonly<Record<AdaptationKind, Change>> = {
  return_thoughts: (body, field, protocol) =>
    protocol === 'anthropic-messages' ? eachMessage(body, thinkFirst) : eachMessage(body, (one) => think(one, field)),
  omit_thoughts: (body) => eachMessage(withoutItems(body, isUnsignedItem), (one) => withoutThoughts(one, isUnsigned)),
  omit_signed_thoughts: (body) =>
    eachMessage(withoutItems(body, isReasoningItem), (one) => withoutThoughts(one, () => true)),
  without_thinking: (body) =>
    ['reasoning_effort', 'reasoning', 'thinking', 'enable_thinking', 'output_config.effort'].reduce(
      (left, path) => withoutField(left, path.split('.')),
      body,
    ),
  bridge_roles: (body) => ({ ...body, messages: listOf(body, 'messages').flatMap(bridged) }),
  nine_letter_ids: (body) => withIds(body, nineLetters),
  plain_ids: (body) => withIds(body, plainId),
  dummy_signatures: (body) => eachMessage(body, signCalls),
  // The prompt has the texts in their place already.
  calls_as_text: (body) => body,
  omit_provider_calls: (body) => withoutItems(body, isProviderCall),
  plain_content: (body) => ({ ...body, messages: listOf(body, 'messages').map(withPlainContent) }),
  omit_file: (body) => body,
  simple_schema: (body, name) => eachTool(body, (tool) => (nameOf(tool) === name ? withSimpleSchema(tool) : tool)),
  omit_tool: (body, name) => withoutTool(body, name),
  without_strict: withoutStrict,
  without_parameter: (body, path) => withoutField(body, path.split('.')),
  completion_tokens: ({ max_tokens: tokens, ...body }) =>
    tokens === undefined ? body : { ...body, max_completion_tokens: tokens },
};

const listOf = (body: Fields, key: string): unknown[] => (Array.isArray(body[key]) ? body[key] : []);

function eachMessage(body: Fields, change: (message: Fields) => Fields): Fields {
  if (!Array.isArray(body['messages'])) return body;
  const messages = body['messages'].map((message: unknown) =>
    isFields(message) && message['role'] === 'assistant' ? change(message) : message,
  );
  return { ...body, messages };
}

/** No content becomes an empty text, and a list of texts one text. A list with files stays. */
function withPlainContent(message: unknown): unknown {
  if (!isFields(message)) return message;
  const { content = null } = message;
  if (content === null) return { ...message, content: '' };
  const texts = Array.isArray(content) ? content.map((part) => (isFields(part) ? part['text'] : part)) : [];
  const isPlain = texts.length > 0 && texts.every((text) => typeof text === 'string');
  return isPlain ? { ...message, content: texts.join('\n\n') } : message;
}

const hasCalls = ({ tool_calls: calls }: Fields): boolean => Array.isArray(calls) && calls.length > 0;

/** The thoughts under the field's name, and a dot where there were none. */
function think(message: Fields, field: string): Fields {
  if (!hasCalls(message)) return message;
  if (field === 'reasoning_details') {
    const { reasoning_details: details, reasoning_content: text = NO_THOUGHTS } = message;
    return { ...message, reasoning_details: details ?? [{ type: 'reasoning.text', text, index: 0 }] };
  }
  const thoughts = [message[field], message['reasoning_content'], message['reasoning']].find(
    (text) => typeof text === 'string' && text !== '',
  );
  return { ...message, [field]: thoughts ?? NO_THOUGHTS };
}

function thinkFirst(message: Fields): Fields {
  const content = listOf(message, 'content');
  const isCalling = content.some((block) => isFields(block) && block['type'] === 'tool_use');
  return !isCalling || content.some(isThinking)
    ? message
    : { ...message, content: [{ type: 'thinking', thinking: NO_THOUGHTS }, ...content] };
}

const isThinking = (block: unknown): block is Fields =>
  isFields(block) && (block['type'] === 'thinking' || block['type'] === 'redacted_thinking');

const isUnsigned = ({ type, signature }: Fields): boolean =>
  type === 'thinking' && (signature === undefined || signature === '');

function withoutThoughts(message: Fields, leaves: (block: Fields) => boolean): Fields {
  const { reasoning_content: _text, reasoning: _short, reasoning_details: _details, ...rest } = message;
  if (!Array.isArray(rest['content'])) return rest;
  return { ...rest, content: rest['content'].filter((block: unknown) => !isThinking(block) || !leaves(block)) };
}

const isReasoningItem = (item: unknown): boolean => isFields(item) && item['type'] === 'reasoning';
/** Such as `web_search_call`. Their answer, which says what they found, stays. */
const isProviderCall = (item: unknown): boolean =>
  isFields(item) && typeof item['type'] === 'string' && /^(?!function_|custom_tool_).+_call$/.test(item['type']);
const isUnsignedItem = (item: unknown): boolean =>
  isFields(item) && isReasoningItem(item) && !item['encrypted_content'];

function withoutItems(body: Fields, leaves: (item: unknown) => boolean): Fields {
  return Array.isArray(body['input']) ? { ...body, input: body['input'].filter((item) => !leaves(item)) } : body;
}

function bridged(message: unknown, index: number, messages: readonly unknown[]): unknown[] {
  const before = messages[index - 1];
  const follows = isFields(before) && before['role'] === 'tool' && isFields(message) && message['role'] === 'user';
  return follows ? [{ role: 'assistant', content: BRIDGE }, message] : [message];
}

/** The ids of all calls and results, each id in the same way. */
function withIds(body: Fields, toId: (id: string) => string): Fields {
  const rename = (value: unknown, isCall: boolean): unknown => {
    if (Array.isArray(value)) return value.map((one) => rename(one, isCall));
    if (!isFields(value)) return value;
    const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
      const isId =
        CALL_FIELDS.includes(key) && typeof inner === 'string' && (key !== 'id' || isCallShaped(value, isCall));
      if (isId) return [key, toId(String(inner))];
      return ['tool_calls', 'content'].includes(key) ? [key, rename(inner, key === 'tool_calls')] : [key, inner];
    });
    return Object.fromEntries(entries);
  };
  const lists = ['messages', 'input'].filter((key) => Array.isArray(body[key]));
  return { ...body, ...Object.fromEntries(lists.map((key) => [key, rename(body[key], false)])) };
}

const isCallShaped = ({ type }: Fields, isCall: boolean): boolean => isCall || type === 'tool_use';

/** Nine letters and digits, the same for the same id. An id that has them stays. */
function nineLetters(id: string): string {
  if (/^[a-zA-Z0-9]{9}$/.test(id)) return id;
  return digestOf(id).slice(0, 9);
}

function plainId(id: string): string {
  if (/^[a-zA-Z0-9_-]{1,40}$/.test(id)) return id;
  return `call_${digestOf(id).slice(0, 24)}`;
}

const digestOf = (id: string): string =>
  createHash('sha256')
    .update(id)
    .digest('base64')
    .replaceAll(/[^a-zA-Z0-9]/g, '');

function signCalls(message: Fields): Fields {
  if (!hasCalls(message)) return message;
  const calls = listOf(message, 'tool_calls').map((call) => {
    if (!isFields(call)) return call;
    const extra = isFields(call['extra_content']) ? call['extra_content'] : {};
    const google = isFields(extra['google']) ? extra['google'] : {};
    if (google['thought_signature']) return call;
    return { ...call, extra_content: { ...extra, google: { ...google, thought_signature: DUMMY_SIGNATURE } } };
  });
  return { ...message, tool_calls: calls };
}

function eachTool(body: Fields, change: (tool: Fields) => Fields): Fields {
  if (!Array.isArray(body['tools'])) return body;
  return { ...body, tools: body['tools'].map((tool: unknown) => (isFields(tool) ? change(tool) : tool)) };
}

function nameOf(tool: Fields): unknown {
  return isFields(tool['function']) ? tool['function']['name'] : tool['name'];
}

function withSimpleSchema(tool: Fields): Fields {
  if (isFields(tool['function'])) return { ...tool, function: withSimpleSchema(tool['function']) };
  return Object.fromEntries(
    Object.entries(tool).map(([key, value]) => [
      key,
      key === 'parameters' || key === 'input_schema' ? simpleSchema(value) : value,
    ]),
  );
}

function withoutTool(body: Fields, name: string): Fields {
  const { tools, tool_choice: choice, ...rest } = body;
  if (!Array.isArray(tools)) return body;
  const left = tools.filter((tool: unknown) => !isFields(tool) || nameOf(tool) !== name);
  // A choice without tools is refused, and so is one of a tool that is not there.
  if (left.length === 0) return rest;
  const isChosen = JSON.stringify(choice ?? null).includes(JSON.stringify(name));
  return { ...rest, tools: left, ...(choice !== undefined && !isChosen && { tool_choice: choice }) };
}

function withoutStrict(body: Fields): Fields {
  const drop = (value: unknown): unknown => {
    if (!isFields(value)) return value;
    const { strict: _, ...rest } = value;
    return rest;
  };
  const tools = eachTool(body, (tool) => {
    const { strict: _, ...rest } = tool;
    return isFields(rest['function']) ? { ...rest, function: drop(rest['function']) } : rest;
  });
  const { response_format: format, text } = tools;
  return {
    ...tools,
    ...(isFields(format) && { response_format: { ...format, json_schema: drop(format['json_schema']) } }),
    ...(isFields(text) && { text: { ...text, format: drop(text['format']) } }),
  };
}

function withoutField(body: Fields, [key = '', ...rest]: readonly string[]): Fields {
  const inner = body[key];
  if (inner === undefined) return body;
  if (rest.length > 0 && isFields(inner)) return { ...body, [key]: withoutField(inner, rest) };
  const { [key]: _, ...left } = body;
  return left;
}
