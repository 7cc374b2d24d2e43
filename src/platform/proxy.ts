import { isIP } from 'node:net';
import { BatonError } from '../domain/errors.ts';

/** By lower case first, as curl reads them. https://everything.curl.dev/usingcurl/proxies/env.html */
const VARIABLES_OF = {
  'https:': ['https_proxy', 'HTTPS_PROXY'],
  'http:': ['http_proxy', 'HTTP_PROXY'],
} as const;
const EXCEPTIONS = ['no_proxy', 'NO_PROXY'] as const;

type Variables = Readonly<Record<string, string | undefined>>;

/** A proxy, and the variable that names it. */
export type OutboundProxy = Readonly<{ url: URL; variable: string }>;

/**
 * The proxy for requests to this address. Null: it is reached directly. Loopback always is, because a proxy elsewhere
 * would reach itself.
 * @throws BatonError `config_invalid` for a variable that names no proxy over HTTP
 */
export function proxyFor(
  { protocol, hostname, port }: URL,
  environment: Variables = process.env,
): OutboundProxy | null {
  if (protocol !== 'https:' && protocol !== 'http:') return null;
  const variable = VARIABLES_OF[protocol].find((name) => environment[name] !== undefined);
  const named = variable === undefined ? undefined : environment[variable]?.trim();
  if (variable === undefined || named === undefined || named === '') return null;
  const isDirect =
    isLoopback(hostname) || isExcepted(hostname, port || (protocol === 'https:' ? '443' : '80'), environment);
  return isDirect ? null : { url: parseProxy(named, variable), variable };
}

/** @throws BatonError `config_invalid`, so that a start says it and not the first request */
export function checkProxies(environment: Variables = process.env): void {
  for (const protocol of ['https:', 'http:']) proxyFor(new URL(`${protocol}//baton.invalid/`), environment);
}

function parseProxy(named: string, variable: string): URL {
  // As curl takes it: a proxy without a scheme speaks HTTP.
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(named) ? named : `http://${named}`;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  const what = url === null ? 'it is no URL' : `${url.protocol.slice(0, -1)} proxies are not supported`;
  throw new BatonError('config_invalid', `${variable}: ${what}. Write http://host:port or https://host:port`);
}

const isLoopback = (hostname: string): boolean =>
  /(?:^|\.)localhost$/i.test(hostname) || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'));

/** Names with all that is below them, with or without a port; `*` for all. */
function isExcepted(hostname: string, port: string, environment: Variables): boolean {
  const name = EXCEPTIONS.find((each) => environment[each] !== undefined);
  const entries = (name === undefined ? '' : (environment[name] ?? '')).split(/[\s,]+/).filter((entry) => entry !== '');
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  return entries.some((entry) => {
    if (entry === '*') return true;
    const [, excepted = '', exceptedPort] =
      /^\[?\*?\.?(.+?)\]?(?::(\d+))?$/.exec(isIP(entry) === 6 ? `[${entry}]` : entry.toLowerCase()) ?? [];
    return (
      (exceptedPort === undefined || exceptedPort === port) && (host === excepted || host.endsWith(`.${excepted}`))
    );
  });
}

/** The error of a request by a proxy, which says so: its address is not the one that was asked. */
export function byProxy({ url, variable }: OutboundProxy, error: unknown): Error {
  return new Error(`the proxy ${url.host} of ${variable}: ${wordsOf(error)}`, { cause: error });
}

const REFUSED_TUNNEL = /^Proxy response \((\d+)\)/;

/** What `fetch` says of an error of its dispatcher. */
const WITHOUT_WORDS: ReadonlySet<string> = new Set(['fetch failed', 'Request was cancelled.']);

/** `fetch` puts the cause below its own error, and several addresses into one. */
function wordsOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(wordsOf))].join(', ');
  if (!(error instanceof Error)) return String(error);
  if (WITHOUT_WORDS.has(error.message) && error.cause !== undefined) return wordsOf(error.cause);
  const status = REFUSED_TUNNEL.exec(error.message)?.[1];
  if (status === undefined) return error.message;
  return status === '407'
    ? 'it wants a user and a password (407): http://user:password@host:port'
    : `it refuses this address (${status})`;
}
