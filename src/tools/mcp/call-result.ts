import { isDeepStrictEqual } from 'node:util';
import { isWrittenNumber, objectOf, parseExactly } from '../../domain/exact-json.ts';
import type { Json } from '../../domain/transcript/message.ts';
import { mediaNotice } from '../media-notice.ts';

type ResultPart =
  | Readonly<{ type: 'text'; text: string }>
  | Readonly<{ type: 'file'; mediaType: string; base64: string; uri?: string }>;

/** The parsed answer. `structured`: JSON beside or in place of its text. */
export type CallResult = Readonly<{ isError: boolean; parts: readonly ResultPart[]; structured: Json | undefined }>;

/**
 * Reads a server's answer to a call, of any form: what cannot be read becomes a text that says so. Removes duplicates:
 * text that is the structured content or a part of it as JSON, structured content that only wraps the text or the whole
 * content, and a file's data within structured content. Pure.
 * @param answer JSON of any form
 */
export function toCallResult(answer: unknown): CallResult {
  const { content, structured, isError } = readAnswer(answer);
  const parts = content.map((item) => toPart(toContent(item)));
  const result = { isError, parts, structured };
  if (structured === undefined) return result;
  const [only, ...others] = parts;
  if (only?.type === 'text' && others.length === 0) {
    // A text may hold digits that its JSON beside it has lost.
    if (isJsonOf(only.text, structured)) return { ...result, parts: [] };
    if (isJsonWithOtherDigits(only.text, structured)) return { ...result, structured: undefined };
    if (wraps(structured, only.text)) return { ...result, structured: undefined };
  }
  if (parts.length > 0 && wraps(structured, content)) return { ...result, structured: undefined };
  if (saysAll(structured, parts)) return { ...result, parts: [] };
  const files = new Map(
    parts.flatMap((part) => (part.type === 'file' ? [[part.base64, fileNotice(part)] as const] : [])),
  );
  return { ...result, structured: withoutFiles(structured, files) };
}

type Answer = Readonly<{ content: readonly unknown[]; structured: Json | undefined; isError: boolean }>;

const RESULT_KEYS: ReadonlySet<string> = new Set(['isError', '_meta', 'resultType']);

function readAnswer(answer: unknown): Answer {
  const nothing = { content: [], structured: undefined, isError: false };
  if (answer === undefined || answer === null) return nothing;
  if (Array.isArray(answer)) return { ...nothing, content: answer };
  if (typeof answer !== 'object' || isWrittenNumber(answer)) return { ...nothing, structured: answer as Json };
  const fields: Readonly<Record<string, unknown>> = { ...answer };
  const isError = fields['isError'] === true;
  // The revision of 2024-10-07 has `toolResult`.
  const structured = (fields['structuredContent'] ?? fields['toolResult'] ?? undefined) as Json | undefined;
  const content = fields['content'] ?? undefined;
  if (content !== undefined)
    return { content: [content].flat().filter((piece) => piece !== null), structured, isError };
  const isOther =
    structured === undefined && Object.entries(fields).some(([key, value]) => value !== null && !RESULT_KEYS.has(key));
  return { content: [], structured: isOther ? (answer as Json) : structured, isError };
}

const ANY_BYTES = 'application/octet-stream';

function toPart(item: Content): ResultPart {
  switch (item.type) {
    case 'text':
      return { type: 'text', text: item.text };
    case 'image':
    case 'audio':
      return { type: 'file', mediaType: item.mimeType || ANY_BYTES, base64: item.data };
    case 'resource_link': {
      const what = [item.name, item.mimeType, item.description].filter((word) => word !== undefined);
      return { type: 'text', text: `[resource ${item.uri}${what.length === 0 ? '' : `: ${what.join(', ')}`}]` };
    }
    case 'resource': {
      const { uri, text, blob = '', mimeType } = item;
      if (text !== undefined) return { type: 'text', text: uri === undefined ? text : `[resource ${uri}]\n${text}` };
      return { type: 'file', mediaType: mimeType || ANY_BYTES, base64: blob, ...(uri !== undefined && { uri }) };
    }
  }
}

function isJsonOf(text: string, structured: Json): boolean {
  try {
    return JSON.stringify(parseExactly(text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

function isJsonWithOtherDigits(text: string, structured: Json): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), JSON.parse(JSON.stringify(structured)));
  } catch {
    return false;
  }
}

/** `{ "result": "the text" }`, under any key. */
function wraps(structured: Json, content: unknown): boolean {
  const values = typeof structured === 'object' && structured !== null ? Object.values(structured) : [];
  return values.length === 1 && isDeepStrictEqual(values[0], content);
}

/** `{ "entities": […], "found": 2 }` beside the entities as text, or beside a text for each of them. */
function saysAll(structured: Json, parts: readonly ResultPart[]): boolean {
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  const isObject = typeof structured === 'object' && structured !== null && !Array.isArray(structured);
  if (!isObject || isWrittenNumber(structured) || texts.length === 0 || texts.length < parts.length) return false;
  const isSaid = (text: string, value: Json | undefined): boolean =>
    value !== undefined && (text === value || isJsonOf(text, value));
  return Object.values(structured).some(
    (value) =>
      (texts.length === 1 && isSaid(texts[0] ?? '', value)) ||
      (Array.isArray(value) && value.length === texts.length && texts.every((text, no) => isSaid(text, value[no]))),
  );
}

/** Replaces data of the result's files by notices: as text it would be many times as long. */
function withoutFiles(value: Json, notices: ReadonlyMap<string, string>): Json {
  if (typeof value === 'string') return notices.get(value) ?? value;
  if (notices.size === 0 || value === null || typeof value !== 'object' || isWrittenNumber(value)) return value;
  if (Array.isArray(value)) return value.map((item) => withoutFiles(item, notices));
  return objectOf(Object.entries(value).map(([key, item]) => [key, withoutFiles(item, notices)])) as Json;
}

/** The result as a tool returns it: JSON if that is all, content if it has files, otherwise text. Pure. */
export function toToolValue(result: CallResult): Json {
  const { parts, structured } = result;
  if (parts.length === 0) return structured ?? '[no output]';
  if (parts.every(({ type }) => type === 'text')) return toToolText(result);
  const value = parts.map((part): Json => {
    if (part.type === 'text') return { type: 'text', text: part.text };
    const { mediaType, base64, uri } = part;
    const data = { type: 'data', data: base64 };
    return { type: 'file', mediaType, data, ...(uri !== undefined && { filename: uri }) };
  });
  const json = structured === undefined ? [] : [{ type: 'text', text: JSON.stringify(structured) }];
  return { type: 'content', value: [...value, ...json] };
}

/** The result as text only, with notices for its files; used for errors. Pure. */
export function toToolText({ parts, structured }: CallResult): string {
  const texts = parts.map((part) => (part.type === 'text' ? part.text : fileNotice(part)));
  return [...texts, ...(structured === undefined ? [] : [JSON.stringify(structured)])].join('\n');
}

function fileNotice({ mediaType, base64, uri }: Extract<ResultPart, { type: 'file' }>): string {
  const bytes = Buffer.byteLength(base64, 'base64');
  return mediaNotice(uri === undefined ? mediaType : `${mediaType} ${uri}`, bytes);
}

/** A content block with what Baton uses of it. A resource has `text` or `blob`. */
type Content =
  | Readonly<{ type: 'text'; text: string }>
  | Readonly<{ type: 'image' | 'audio'; data: string; mimeType: string | undefined }>
  | Readonly<{ type: 'resource_link'; uri: string } & LinkWords>
  | Readonly<{
      type: 'resource';
      uri: string | undefined;
      text: string | undefined;
      blob: string | undefined;
      mimeType: string | undefined;
    }>;
type LinkWords = Record<'name' | 'mimeType' | 'description', string | undefined>;
type Fields = Readonly<Record<string, unknown>>;

const MAX_NAME_CHARS = 100;

/**
 * Reads a content block: null is absent, and what Baton does not use may have any form. One that cannot be read becomes
 * a text with its name and the problem. Pure.
 */
function toContent(piece: unknown): Content {
  if (typeof piece === 'string') return { type: 'text', text: piece };
  if (!isFields(piece)) return malformed('content', 'is not an object');
  const { uri, text } = piece;
  const [name, mimeType, description] = ['name', 'mimeType', 'description'].map((key) => wordOf(piece[key]));
  const type = wordOf(piece['type']) ?? (text === undefined ? '' : 'text');
  const label = mimeType ?? (type === '' ? 'content' : type);
  switch (type) {
    case 'text':
      if (text === undefined || text === null) return malformed(label, 'text: is missing');
      return { type, text: typeof text === 'string' ? text : JSON.stringify(text) };
    case 'image':
    case 'audio': {
      const read = readBytes(piece['data']);
      return 'problem' in read ? malformed(label, `data: ${read.problem}`) : { type, data: read.base64, mimeType };
    }
    case 'resource_link':
      if (typeof uri !== 'string') return malformed(label, 'uri: is missing');
      return { type, uri, name: name ?? wordOf(piece['title']), mimeType, description };
    case 'resource':
      return toResource(piece['resource']);
    default:
      return malformed(label, 'type: is not a kind of content');
  }
}

function toResource(resource: unknown): Content {
  if (!isFields(resource)) return malformed('resource', 'resource: is not an object');
  const [uri, mimeType] = [wordOf(resource['uri']), wordOf(resource['mimeType'])];
  const visible = { type: 'resource' as const, uri, mimeType };
  const { text } = resource;
  if (typeof text === 'string') return { ...visible, text, blob: undefined };
  const read = readBytes(resource['blob']);
  if ('problem' in read) return malformed(mimeType ?? 'resource', `resource.blob: ${read.problem}`);
  return { ...visible, text: undefined, blob: read.base64 };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const wordOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Base64, also of a data URL and of the alphabet for URLs. */
function readBytes(data: unknown): Readonly<{ base64: string }> | Readonly<{ problem: string }> {
  if (data === undefined || data === null) return { problem: 'is missing' };
  if (typeof data !== 'string') return { problem: 'is no text' };
  const base64 = data
    .replace(/^data:[^,]{0,200};base64,/i, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
  if (base64.trim() === '') return { problem: 'is empty' };
  try {
    atob(base64);
    return { base64 };
  } catch {
    return { problem: 'Invalid Base64 string' };
  }
}

const malformed = (name: string, why: string): Content => ({
  type: 'text',
  text: `[malformed ${name.slice(0, MAX_NAME_CHARS)}, not shown: ${why}]`,
});
