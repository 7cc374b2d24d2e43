import { endOfValue } from '../json-end.ts';
import { pauseInField, pauseInWords } from './pause-words.ts';
import type { ProviderErrorSignals } from './provider-errors.ts';

export type ErrorSignals = ProviderErrorSignals &
  Readonly<{
    /** Of the response, also if it was no refusal. */
    httpStatus: number | null;
    /** The provider's own code, else its type of error, in its own spelling. */
    code: string | null;
    requestId: string | null;
    /** Host and port that the request went to. */
    authority: string | null;
    /** Reason for a missing response: `ECONNREFUSED`. */
    errno: string | null;
    /** The texts, less shortened than those for matching. */
    words: readonly string[];
    /** The longest pause that the body asks for. Null: none. */
    pauseMs: number | null;
  }>;

/** A provider states the error at the beginning. The rest may be the prompt, in which any pattern can occur. */
const MAX_TEXT_CHARS = 1_000;
/** Length of a shown text, before credentials and echoes are removed. */
const MAX_WORDS_CHARS = 4_000;
/** A larger body holds the request rather than an error: only its beginning is read, as text. */
const MAX_JSON_CHARS = 65_536;
/** Depth of objects. JSON within a text is as deep as the text. */
const MAX_DEPTH = 8;
const MAX_VISITED = 200;
const MAX_TEXTS = 16;

/**
 * Keys under which the SDK, providers and gateways nest errors, the nearest first. Keys that may repeat the request are
 * left out on purpose: `requestBodyValues`, `input`, `value`, `param`, `prompt`, `messages`.
 */
const NESTED_KEYS = [
  'error',
  'errors',
  'lastError',
  'response',
  'responseBody',
  'body',
  'data',
  'detail',
  'details',
  'violations',
  'metadata',
  'raw',
  'base_resp',
  'innererror',
  'cause',
];
const MESSAGE_KEYS = ['message', 'msg', 'status_msg', 'error_description', 'title'];
const CODE_KEYS = ['code', 'type', 'status', '__type', 'name', 'error_code', 'errorCode', 'quotaId', 'quotaMetric'];
const STATUS_KEYS = ['statusCode', 'status_code', 'status', 'code'];

/** Codes that say nothing: every provider calls the outermost type `error`, and the SDK has names of its own. */
const NO_CODES = ['error', 'ai_apicallerror', 'ai_streamprovidererror'];

/** Fields in which bodies name a pause, with the unit of a bare number. */
const PAUSE_KEYS = [
  ['retryDelay', 1_000], // Google
  ['retry_after', 1_000],
  ['retryAfter', 1_000],
  ['retry_after_seconds', 1_000],
  ['retry_after_ms', 1],
  ['retryAfterMs', 1],
] as const;

/** Headers in which providers and gateways name a request, the most useful first. */
const REQUEST_ID_HEADERS = [
  'x-request-id', // OpenAI, OpenRouter, vLLM, Groq, xAI
  'request-id', // Anthropic
  'apim-request-id', // Azure
  'x-amzn-requestid', // Bedrock
  'x-litellm-call-id',
  'x-generation-id',
  'cf-ray', // providers behind Cloudflare
];
const REQUEST_ID_KEYS = ['request_id', 'requestId', 'requestID'];

/** Errors of the SDK whose cause tells how the SDK read the answer, and nothing of the provider. */
const MISREADINGS = ['AI_TypeValidationError', 'AI_JSONParseError'];

type Found = {
  statuses: number[];
  codes: string[];
  texts: string[];
  host: string;
  isEmpty: boolean;
  httpStatus: number | null;
  code: string | null;
  type: string | null;
  requestId: string | null;
  authority: string | null;
  errno: string | null;
  words: string[];
  pauses: number[];
  visited: Set<object>;
};

/** Collects all signals in any thrown value: nested errors, and JSON inside of texts. Bounded; never throws. */
export function signalsOf(error: unknown): ErrorSignals {
  const found: Found = {
    statuses: [],
    codes: [],
    texts: [],
    host: '',
    isEmpty: false,
    httpStatus: null,
    code: null,
    type: null,
    requestId: null,
    authority: null,
    errno: null,
    words: [],
    pauses: [],
    visited: new Set(),
  };
  collect(error, found, 0);
  const { statuses, code, type, texts, pauses, visited: _, ...rest } = found;
  const named = [...pauses, ...texts.flatMap((text) => pauseInWords(text) ?? [])];
  return {
    ...rest,
    status: statusOf(statuses),
    texts: texts.slice(0, MAX_TEXTS),
    code: code ?? type,
    pauseMs: named.length === 0 ? null : Math.max(...named),
  };
}

/** The request's id in the headers of a response; null: none. */
export function requestIdIn(headers: unknown): string | null {
  for (const name of REQUEST_ID_HEADERS) {
    const id = read(headers, name);
    if (isName(id)) return id;
  }
  return null;
}

/** The outermost status, unless a gateway's own hides a rate limit or a refusal by the provider behind it. */
function statusOf(statuses: readonly number[]): number | null {
  const [outermost] = statuses;
  if (statuses.includes(429)) return 429;
  if (outermost === undefined || outermost < 500) return outermost ?? null;
  return statuses.find((status) => status < 500) ?? outermost;
}

function collect(value: unknown, found: Found, depth: number): void {
  if (depth > MAX_DEPTH || found.visited.size >= MAX_VISITED) return;
  if (typeof value === 'string') {
    collectText(value, found, depth);
    return;
  }
  if (typeof value !== 'object' || value === null || found.visited.has(value)) return;
  found.visited.add(value);
  if (Array.isArray(value)) {
    for (const item of value.slice(0, MAX_TEXTS)) collect(item, found, depth + 1);
    return;
  }
  for (const key of STATUS_KEYS) if (!isMadeUp(value, key)) addStatus(read(value, key), found);
  for (const key of CODE_KEYS) addCode(read(value, key), found);
  for (const [key, unitMs] of PAUSE_KEYS) addPause(pauseInField(read(value, key), unitMs), found);
  addCode(read(read(value, 'responseHeaders'), 'x-amzn-errortype'), found);
  addDetails(value, found);
  for (const key of MESSAGE_KEYS) collect(read(value, key), found, depth + 1);
  addWindow(value, found);
  addResponse(value, found);
  const isMisread = MISREADINGS.includes(String(read(value, 'name')));
  for (const key of NESTED_KEYS) if (key !== 'cause' || !isMisread) collect(read(value, key), found, depth + 1);
}

/** Reads the JSON in a text, and the text before it as a message. A text without JSON is a message. */
function collectText(text: string, found: Found, depth: number): void {
  const json = embeddedJson(text);
  if (json !== undefined) collect(json.value, found, depth);
  const whole = json === undefined ? text : text.slice(0, json.start);
  const message = whole.slice(0, MAX_TEXT_CHARS).trim();
  if (message === '' || found.texts.includes(message)) return;
  found.texts.push(message);
  // No word is cut in half, because it might be half of a secret.
  found.words.push(whole.length > MAX_WORDS_CHARS ? whole.slice(0, MAX_WORDS_CHARS).replace(/\S*$/, '') : whole);
}

function embeddedJson(text: string): { value: unknown; start: number } | undefined {
  const start = text.indexOf('{');
  if (start === -1 || start > MAX_TEXT_CHARS || text.length > MAX_JSON_CHARS) return undefined;
  const end = endOfValue(text, start);
  return end === null ? undefined : parsed(text.slice(start, end), start);
}

function parsed(text: string, start: number): { value: unknown; start: number } | undefined {
  try {
    return { value: JSON.parse(text), start };
  } catch {
    return undefined;
  }
}

/** For an error inside a stream the SDK makes up a 500. The provider's own status, if any, is in the data. */
function isMadeUp(error: object, key: string): boolean {
  if (key !== 'statusCode' || read(error, key) !== 500) return false;
  const mediaType = read(read(error, 'responseHeaders'), 'content-type');
  return read(error, 'name') === 'AI_StreamProviderError' || /^text\/event-stream/i.test(String(mediaType));
}

function addStatus(value: unknown, found: Found): void {
  const status = typeof value === 'string' && /^[45]\d\d$/.test(value) ? Number(value) : value;
  if (typeof status === 'number' && Number.isInteger(status) && status >= 300 && status < 600)
    found.statuses.push(status);
}

function addPause(pauseMs: number | null, found: Found): void {
  if (pauseMs !== null) found.pauses.push(pauseMs);
}

function addCode(value: unknown, found: Found): void {
  if (typeof value !== 'string' || value === '' || value.length > 100) return;
  const code = value.toLowerCase();
  if (!NO_CODES.includes(code) && !found.codes.includes(code)) found.codes.push(code);
}

/** An error from below the SDK has the system's code (errno), not the provider's. The outermost values win. */
function addDetails(value: object, found: Found): void {
  const headers = read(value, 'responseHeaders');
  found.requestId ??= requestIdIn(headers) ?? firstOf(REQUEST_ID_KEYS.map((key) => read(value, key)).filter(isName));
  const status = read(value, 'statusCode');
  if (typeof status === 'number' && !isMadeUp(value, 'statusCode')) found.httpStatus ??= status;
  const codes = OWN_CODE_KEYS.map((key) => read(value, key));
  if (value instanceof Error && !value.name.startsWith('AI_')) {
    found.errno ??= firstOf(codes.filter(isErrno));
    return;
  }
  codes.push(read(headers, 'x-amzn-errortype'), ...[read(value, 'status')].filter(isErrno));
  found.code ??= firstOf(codes.filter(isOwnCode));
  found.type ??= firstOf([read(value, 'type')].filter(isOwnCode));
}

const OWN_CODE_KEYS = ['code', 'error_code', 'errorCode', '__type'];

const firstOf = <T>(values: readonly T[]): T | null => values[0] ?? null;

/** Printable and on one line, so that it can stand in a sentence. */
const isName = (value: unknown): value is string => typeof value === 'string' && /^[\w.:=/+-]{1,128}$/.test(value);

const isErrno = (value: unknown): value is string => typeof value === 'string' && /^[A-Z][A-Z\d_]{2,60}$/.test(value);

/** Neither the status again, nor a generic word such as `error` or `none`. */
const isOwnCode = (value: unknown): value is string =>
  isName(value) && !/^(?:[1-5]\d\d|error|none|null|response\..*)$/i.test(value);

/** llama.cpp puts its numbers beside the message. */
function addWindow(value: object, found: Found): void {
  const window = { n_prompt_tokens: read(value, 'n_prompt_tokens'), n_ctx: read(value, 'n_ctx') };
  if (typeof window.n_prompt_tokens === 'number' && typeof window.n_ctx === 'number') {
    found.texts.push(JSON.stringify(window));
  }
}

/** Collects the host, and whether the body was empty, from the SDK's errors about a response. */
function addResponse(value: object, found: Found): void {
  const [url, body] = [read(value, 'url'), read(value, 'responseBody')];
  if (typeof url === 'string' && URL.canParse(url)) {
    const { hostname, host } = new URL(url);
    found.host ||= hostname.toLowerCase();
    found.authority ??= host;
  }
  if (typeof body === 'string' && body.trim() === '') found.isEmpty = true;
}

function read(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  try {
    return Reflect.get(value, key);
  } catch {
    return undefined;
  }
}
