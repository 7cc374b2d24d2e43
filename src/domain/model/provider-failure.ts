import type { ProviderFailure } from '../errors.ts';
import { toBoundary } from '../truncate.ts';
import { withoutCredentials } from './credentials.ts';
import { withoutEchoes } from './echoes.ts';
import { requestIdIn, signalsOf } from './error-signals.ts';

export type FailedCall = Readonly<{
  /** Base URL of the request; not a URL if the SDK's own is used. */
  endpoint: string;
  /** Headers of a response that was no refusal; null: none came. */
  headers: Readonly<Record<string, string>> | null;
  sent: () => Iterable<string>;
  secrets: readonly string[];
}>;

const MAX_MESSAGE_CHARS = 1_000;
/** Most texts of one error that are shown: a gateway's, and the provider's behind it. */
const MAX_WORDS = 3;

const PHRASES: readonly (readonly [RegExp, string])[] = [
  [/^Cannot connect to API: /, ''],
  [/^Type validation failed: Value:[\s\S]*$/, ''],
  [/^JSON parsing failed: Text:[\s\S]*$/, 'the answer is not the JSON that the protocol has'],
  [/^Expected a normalized Anthropic stream error$/, 'the answer is no event of the protocol'],
  // OpenSSL: thread, number, library, function, reason, file.
  [/[\dA-F]+:error:[\dA-F]+:([^:]*):[^:]*:([^:]*):\S*/g, '$1: $2'],
];

/** Texts of the SDK for a body that it cannot read: they only repeat the status. */
const REASON_PHRASES = new Set(
  [
    'Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Request Timeout',
    'Conflict|Gone|Payload Too Large|Content Too Large|Request Entity Too Large|Unsupported Media Type',
    'Unprocessable Entity|Unprocessable Content|Too Many Requests|Internal Server Error|Not Implemented|Bad Gateway',
    'Service Unavailable|Gateway Timeout',
  ].flatMap((phrases) => phrases.toLowerCase().split('|')),
);

/** A run of characters that is not readable: bytes as base64, a token. */
const LONG_RUN = /([\w+/=-]{8})[\w+/=-]{92,}/g;

/** Never holds the prompt or a credential. Unknown fields are left out. */
export function providerFailureOf(error: unknown, { endpoint, headers, sent, secrets }: FailedCall): ProviderFailure {
  const { status, httpStatus, code, requestId, authority, errno, words } = signalsOf(error);
  const text = joined([...misdelivery(headers), ...words.map(readable)]);
  const fields = {
    status: status ?? httpStatus ?? (headers === null ? null : 200),
    code: code === null ? null : withoutCredentials(code, secrets),
    message: cut(withoutEchoes(withoutCredentials(text, secrets), sent()).replaceAll(LONG_RUN, '$1[…]')),
    requestId: requestId ?? requestIdIn(headers),
    host: authority ?? (URL.canParse(endpoint) ? new URL(endpoint).host : null),
    errno,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== ''));
}

/** For instance `api.openai.com answered 400 (unsupported_parameter): … [request req_1]`; '' if nothing is known. */
export function describeProviderFailure(failure: ProviderFailure): string {
  const { status, code, message = '', requestId, host, errno } = failure;
  if (Object.keys(failure).length === 0) return '';
  const who = `${host ?? 'The provider'}${status === undefined ? '' : ` answered ${status}`}`;
  const names = [code, errno].filter((name) => name !== undefined && !message.includes(name));
  const label = names.length === 0 ? '' : ` (${names.join(', ')})`;
  const what = message === '' ? '' : `: ${message.replace(/[.\s]+$/, '')}`;
  return `${who}${label}${what}${requestId === undefined ? '' : ` [request ${requestId}]`}.`;
}

/** Reports a page in place of an answer: mostly the base URL belongs to another server. */
function misdelivery(headers: FailedCall['headers']): string[] {
  const type = headers?.['content-type']?.match(/^[\w.+-]+\/[\w.+-]+/)?.[0].toLowerCase();
  return type === undefined || type === 'text/event-stream' ? [] : [`the answer is ${type}, no stream of events`];
}

function readable(text: string): string {
  const phrased = PHRASES.reduce((left, [pattern, words]) => left.replace(pattern, words), ofPage(text));
  return phrased
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
}

function ofPage(text: string): string {
  if (!/^\s*<(?:!doctype|html|head|body|title|h1)\b/i.test(text)) return text;
  const title = text.match(/<(title|h1)\b[^>]*>([^<]+)/i)?.[2];
  return title ?? text.replace(/<(style|script)\b[\s\S]*?<\/\1>|<[^>]*>/gi, ' ');
}

/** Joins distinct texts, the outermost first; a reason phrase only if there is nothing else. */
function joined(words: readonly string[]): string {
  const uniqueWords = words.filter((word, index) => {
    const isIn = (other: string, at: number): boolean =>
      at !== index && other.toLowerCase().includes(word.toLowerCase()) && (other.length > word.length || at < index);
    return /[\p{L}\p{N}]/u.test(word) && !words.some(isIn);
  });
  const telling = uniqueWords.filter((word) => !REASON_PHRASES.has(word.toLowerCase()));
  const [last = '', ...before] = (telling.length > 0 ? telling.slice(0, MAX_WORDS) : uniqueWords.slice(0, 1)).reverse();
  return [...before.reverse().map((word) => word.replace(/[\s.:-]+$/, '')), last].join(': ');
}

function cut(text: string): string {
  // A rest without letters says nothing.
  if (!/\p{L}/u.test(text)) return '';
  if (text.length <= MAX_MESSAGE_CHARS) return text;
  return `${text.slice(0, toBoundary(text, MAX_MESSAGE_CHARS - 1, -1))}…`;
}
