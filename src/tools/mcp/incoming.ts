import { z } from 'zod';
import { parseExactly } from '../../domain/exact-json.ts';

/** Error codes of JSON-RPC (https://www.jsonrpc.org/specification#error_object). */
const PARSE_ERROR = -32_700;
const INTERNAL_ERROR = -32_603;
/** Not of a server: the answer to a request has broken off. */
export const BROKEN_OFF = -32_000;
const MAX_SHOWN_CHARS = 2_000;

export type SentRequest = Readonly<{ id: string | number; method: string }>;
type Fields = Readonly<Record<string, unknown>>;

/** The data of an error that the server sent: the SDK makes errors of its own with the same codes. */
const sentSchema = z.object({ sentByServer: z.literal(true) });
export const isSentByServer = (data: unknown): boolean => sentSchema.safeParse(data).success;

/** The result of any request but those of the beginning, as it came. */
export const answerSchema = z.looseObject({ answer: z.unknown().optional() });

/** What the SDK wants to see in any result of 2026-07-28 before it gives the answer. */
const SEEN_BY_SDK = { resultType: 'complete', content: [], tools: [], ttlMs: 0, cacheScope: 'private' };

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * A server's message in the form that MCP's SDK accepts. Absent and null are the same, the result of a call comes as
 * `{ answer }` of any form, and an error of any form is one. Pure.
 * @param request the only one that this can answer, or null
 */
export function toSdkMessage(message: unknown, request: SentRequest | null): unknown {
  if (!isFields(message)) return request === null ? message : unreadable(request, JSON.stringify(message) ?? '');
  const { id = null, method, params, result, error = null } = message;
  if (typeof method === 'string') return withoutNulls({ ...message, jsonrpc: '2.0', params: params ?? undefined });
  // Servers answer what they cannot read without an id, and some write a number as a string.
  const answers = id === null || String(id) === String(request?.id) ? request?.id : id;
  const isDiscovery = request?.method === 'server/discover' && answers === request.id;
  if (error !== null)
    return { jsonrpc: '2.0', id: answers, error: isDiscovery ? toReadError(error) : toSdkError(error) };
  if (!('result' in message)) return request === null ? message : unreadable(request, JSON.stringify(message));
  const isBegin = request?.method === 'initialize' && answers === request.id;
  if (isBegin) return { jsonrpc: '2.0', id: answers, result: toBeginning(result) };
  return {
    jsonrpc: '2.0',
    id: answers,
    result: isDiscovery ? toDiscovery(result) : { ...SEEN_BY_SDK, answer: result },
  };
}

/** The answer to a request whose text is no message: it is told, because the request has been carried out. */
export function unreadable({ id }: SentRequest, text: string): object {
  const excerpt = text.trim() === '' ? 'nothing' : `what is no message of MCP: ${text.slice(0, MAX_SHOWN_CHARS)}`;
  const data = { sentByServer: true };
  return { jsonrpc: '2.0', id, error: { code: PARSE_ERROR, message: `it answered ${excerpt}`, data } };
}

/** In place of the answer to a call that the process cannot hold. The call has been carried out. */
export const unheld = (id: unknown, bytes: number): object => ({
  jsonrpc: '2.0',
  id,
  error: {
    code: INTERNAL_ERROR,
    message: `it answered with ${bytes} bytes, for which this worker had no room beside the answers to other calls`,
    data: { sentByServer: true },
  },
});

/** Reads a message's text. @returns undefined if it is no JSON */
export function readJson(text: string): unknown {
  try {
    return parseExactly(text.replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
}

function toSdkError(error: unknown): object {
  const { data, ...rest } = toReadError(error);
  return { ...rest, data: { sentByServer: true, data } };
}

function toReadError(error: unknown): Readonly<{ code: number; message: string; data: unknown }> {
  const { code, message, data } = isFields(error) ? error : { code: undefined, message: error, data: undefined };
  const words = typeof message === 'string' ? message : (JSON.stringify(message) ?? 'an error without a message');
  const number = Number(code ?? Number.NaN);
  return {
    code: Number.isInteger(number) ? number : INTERNAL_ERROR,
    message: words,
    data: data ?? undefined,
  };
}

/** The answer to `initialize` with what the SDK insists on. */
function toBeginning(result: unknown): unknown {
  const cleaned = withoutNulls(result);
  if (!isFields(cleaned)) return cleaned;
  const { capabilities, serverInfo, instructions, ...rest } = cleaned;
  const info = isFields(serverInfo) ? serverInfo : {};
  return {
    protocolVersion: rest['protocolVersion'],
    capabilities: isFields(capabilities) ? toCapabilities(capabilities) : {},
    serverInfo: { name: textOr(info['name'], 'unnamed'), version: textOr(info['version'], '0') },
    ...(typeof instructions === 'string' && { instructions }),
  };
}

/** The answer to `server/discover`. Anything else than revisions is no answer to it, but one of an older server. */
function toDiscovery(result: unknown): unknown {
  const cleaned = withoutNulls(result);
  const versions = isFields(cleaned) ? cleaned['supportedVersions'] : undefined;
  if (!isFields(cleaned) || !Array.isArray(versions)) return {};
  const { capabilities, instructions } = cleaned;
  return {
    ...SEEN_BY_SDK,
    supportedVersions: versions.map(String),
    capabilities: isFields(capabilities) ? toCapabilities(capabilities) : {},
    ...(typeof instructions === 'string' && { instructions }),
  };
}

const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise);

/** Baton uses tools alone, some of them as tasks. `true` for a capability means the same as an empty object. */
function toCapabilities({ tools, tasks }: Fields): object {
  if (tools === undefined || tools === false) return {};
  const { listChanged } = isFields(tools) ? tools : { listChanged: undefined };
  const { data: task } = takenTasksSchema.safeParse(tasks);
  return {
    tools: typeof listChanged === 'boolean' ? { listChanged } : {},
    ...(task !== undefined && { tasks: { requests: { tools: { call: {} } } } }),
  };
}

/** Of 2025-11-25: a server that takes calls as tasks. */
const takenTasksSchema = z.looseObject({
  requests: z.looseObject({ tools: z.looseObject({ call: z.union([z.literal(true), z.looseObject({})]) }) }),
});

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isFields(value)) return value;
  const kept = Object.entries(value).filter(([, item]) => item !== null && item !== undefined);
  return Object.fromEntries(kept.map(([key, item]) => [key, withoutNulls(item)]));
}
