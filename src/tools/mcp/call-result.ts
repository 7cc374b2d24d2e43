import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Json } from '../../domain/transcript/message.ts';
import { mediaNotice } from '../media-notice.ts';
import { type Content, toContent } from './content.ts';

/** The answer with unparsed content pieces: each is parsed on its own. */
const answerSchema = z.looseObject({
  content: z.array(z.unknown()).default([]),
  structuredContent: z.unknown().optional(),
  isError: z.unknown().optional(),
});

type ResultPart =
  | Readonly<{ type: 'text'; text: string }>
  | Readonly<{ type: 'file'; mediaType: string; base64: string; uri?: string }>;

/** The parsed answer. `structured`: JSON beside or in place of its text. */
export type CallResult = Readonly<{ isError: boolean; parts: readonly ResultPart[]; structured: Json | undefined }>;

/**
 * Parses a server's answer to a call; an invalid piece becomes a text that names it. Removes duplicates: text that is
 * the structured content as JSON, structured content that only wraps the text or the whole content, and a file's data
 * within structured content. Pure.
 * @param answer JSON of any form
 * @throws Error if the answer is not a tool result
 */
export function toCallResult(answer: unknown): CallResult {
  const { data, error } = answerSchema.safeParse(answer);
  if (data === undefined)
    throw new Error(error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join());
  const { content, structuredContent, isError } = data;
  const parts = content.map((item) => toPart(toContent(item)));
  const structured = (structuredContent ?? undefined) as Json | undefined;
  const result = { isError: isError === true, parts, structured };
  if (structured === undefined) return result;
  const [only, ...others] = parts;
  if (only?.type === 'text' && others.length === 0) {
    if (isJsonOf(only.text, structured)) return { ...result, parts: [] };
    if (wraps(structured, only.text)) return { ...result, structured: undefined };
  }
  if (parts.length > 0 && wraps(structured, content)) return { ...result, structured: undefined };
  const files = new Map(
    parts.flatMap((part) => (part.type === 'file' ? [[part.base64, fileNotice(part)] as const] : [])),
  );
  return { ...result, structured: withoutFiles(structured, files) };
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
      return { type: 'text', text: `[resource ${item.uri}: ${what.join(', ')}]` };
    }
    case 'resource': {
      const { resource } = item;
      if ('text' in resource) return { type: 'text', text: `[resource ${resource.uri}]\n${resource.text}` };
      const mediaType = resource.mimeType || ANY_BYTES;
      return { type: 'file', mediaType, base64: resource.blob, uri: resource.uri };
    }
  }
}

function isJsonOf(text: string, structured: Json): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

/** `{ "result": "the text" }`, under any key. */
function wraps(structured: Json, content: unknown): boolean {
  const values = typeof structured === 'object' && structured !== null ? Object.values(structured) : [];
  return values.length === 1 && isDeepStrictEqual(values[0], content);
}

/** Replaces data of the result's files by notices: as text it would be many times as long. */
function withoutFiles(value: Json, notices: ReadonlyMap<string, string>): Json {
  if (typeof value === 'string') return notices.get(value) ?? value;
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((item) => withoutFiles(item, notices));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutFiles(item, notices)]));
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
