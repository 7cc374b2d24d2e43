import { promises as dns, type LookupAddress } from 'node:dns';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { type Dispatcher, request as sendWith } from 'undici';
import { BatonError } from '../../domain/errors.ts';
import { NoRoom, type TakeRoom } from '../../platform/arriving-bytes.ts';
import { dispatcherOf } from '../../platform/patient-fetch.ts';
import { byProxy, type OutboundProxy, proxyFor } from '../../platform/proxy.ts';
import { isPublicAddress } from './public-address.ts';

/** Allowed destinations besides the public Internet. */
export type OutboundPolicy = Readonly<{
  allowPrivate: boolean;
  /** Names (as in the URL, in lower case) that may be at any address: `host` on every port, `host:port` on one. */
  allowedHosts: readonly string[];
  /** Whether the proxy of the environment may be used, which then decides what a name leads to. */
  usesProxy?: boolean;
  /** Resolves a name to addresses. Default: the system's resolver. */
  resolve?: (hostname: string) => Promise<readonly LookupAddress[]>;
}>;

export type GuardedRequest = Readonly<{
  url: URL;
  method: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  maxResponseBytes: number;
  signal: AbortSignal;
  /** Waits for room for the answer. Absent: there is room. */
  takeRoom?: TakeRoom | undefined;
}>;

export type GuardedResponse = Readonly<{
  status: number;
  contentType: string;
  body: Buffer;
  /** The response was longer than `maxResponseBytes`. */
  isCut: boolean;
}>;

/** A request that failed. `sent`: the endpoint may have received it, so its effect is unknown. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed';
  readonly sent: boolean;

  constructor(message: string, sent: boolean, cause: unknown) {
    super(message, { cause });
    this.sent = sent;
  }
}

/**
 * Refuses a URL whose host is plainly private, before anything is sent. A name that only resolves to a private address
 * is refused when a request is sent.
 * @param field of the request that has the URL
 * @param setting that would allow it
 * @throws BatonError `invalid_request`
 */
export function refusePrivateUrl(url: string, policy: OutboundPolicy, field: string, setting: string): void {
  const hostname = hostOf(new URL(url));
  const isPrivate = isIP(hostname) === 0 ? /(?:^|\.)localhost$/.test(hostname) : !isPublicAddress(hostname);
  if (!isPrivate || policy.allowPrivate || isNamed(new URL(url), policy)) return;
  const message = `${hostname} is no public address; the operator of the service can allow it by ${setting}`;
  throw new BatonError('invalid_request', message, { field });
}

function isNamed(url: URL, { allowedHosts }: OutboundPolicy): boolean {
  const port = url.port === '' ? { 'http:': '80', 'https:': '443' }[url.protocol] : url.port;
  // An IPv6 address has its brackets where a port follows.
  return allowedHosts.includes(hostOf(url)) || allowedHosts.includes(`${url.hostname.toLowerCase()}:${port}`);
}

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '').toLowerCase();

/**
 * Sends one request, only to checked addresses: they are pinned, so a later DNS answer cannot redirect the connection.
 * Follows no redirect, keeps no connection. A proxy is used only if the policy says so: its host is then checked by name,
 * and by its addresses where this machine knows any.
 * @throws BatonError `invalid_request` for an address that is not allowed; RequestFailed
 */
export async function sendGuarded(request: GuardedRequest, policy: OutboundPolicy): Promise<GuardedResponse> {
  const { url, method, headers, body, signal } = request;
  const hostname = hostOf(url);
  const isAllowed = (address: string): boolean =>
    policy.allowPrivate || isNamed(url, policy) || isPublicAddress(address);
  // An address in the URL needs no lookup, so `lookup` below is not called.
  if (isIP(hostname) !== 0 && !isAllowed(hostname)) throw refused(hostname);
  const find = policy.resolve ?? ((name) => dns.lookup(name, { all: true }));
  const proxy = policy.usesProxy === true ? proxyFor(url) : null;
  if (proxy !== null) return sendByProxy(request, proxy, async () => refuseKnown(hostname, isAllowed, find));
  const { request: open, Agent } = url.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: false });
  const lookup = checkedLookup(isAllowed, find);
  const { promise, resolve, reject } = Promise.withResolvers<GuardedResponse>();
  const sending = open(url, { method, headers, agent, lookup, signal });
  let sent = false;
  sending.on('finish', () => {
    sent = true;
  });
  sending.on('error', (error) => reject(error instanceof BatonError ? error : failed(error, sent, signal)));
  sending.on('response', (response) => {
    readBounded(response, request).then(resolve, (error) => reject(failed(error, true, signal)));
  });
  sending.end(body);
  return promise;
}

/** Where only the proxy can resolve names, the name is all that is known here. */
async function refuseKnown(
  hostname: string,
  isAllowed: (address: string) => boolean,
  resolve: (hostname: string) => Promise<readonly LookupAddress[]>,
): Promise<void> {
  if (isIP(hostname) !== 0) return;
  const addresses = await resolve(hostname).catch(() => []);
  if (!addresses.every(({ address }) => isAllowed(address))) throw refused(hostname);
}

async function sendByProxy(
  request: GuardedRequest,
  proxy: OutboundProxy,
  check: () => Promise<void>,
): Promise<GuardedResponse> {
  const { url, method, headers, body, signal } = request;
  await check();
  try {
    const dispatcher = dispatcherOf(proxy);
    const answer = await sendWith(url, { dispatcher, method: method as Dispatcher.HttpMethod, headers, body, signal });
    const contentType = String(answer.headers['content-type'] ?? '');
    return { status: answer.statusCode, contentType, ...(await readBytes(answer.body, request)) };
  } catch (error) {
    if (signal.aborted) throw failed(error, true, signal);
    const why = byProxy(proxy, error);
    throw new RequestFailed(why.message, !isUnsent(error), why);
  }
}

/** No connection came about, to the proxy or by it. */
const isUnsent = (error: unknown): boolean =>
  error instanceof Error && ('syscall' in error ? error.syscall === 'connect' : /^Proxy response/.test(error.message));

function checkedLookup(
  isAllowed: (address: string) => boolean,
  resolve: (hostname: string) => Promise<readonly LookupAddress[]>,
): LookupFunction {
  const find = async (hostname: string): Promise<readonly [LookupAddress, ...LookupAddress[]]> => {
    const [first, ...others] = await resolve(hostname);
    if (first === undefined) throw new Error(`${hostname} has no address`);
    const bad = [first, ...others].find(({ address }) => !isAllowed(address));
    if (bad !== undefined) throw refused(hostname);
    return [first, ...others];
  };
  return (hostname, options, callback) => {
    find(hostname).then(
      (addresses) =>
        options.all === true
          ? callback(null, [...addresses])
          : callback(null, addresses[0].address, addresses[0].family),
      (error: Error) => callback(error, '', 0),
    );
  };
}

/** Does not reveal the resolved address: the model must not learn about the network. */
function refused(hostname: string): BatonError {
  return new BatonError('invalid_request', `The address of ${hostname} is not a public one: the request was not sent.`);
}

function failed(error: unknown, sent: boolean, signal: AbortSignal): RequestFailed {
  if (error instanceof NoRoom) return new RequestFailed(error.message, sent, error);
  if (signal.aborted) return new RequestFailed('it was stopped', sent, signal.reason);
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer';
  return new RequestFailed(code, sent, error);
}

async function readBounded(response: IncomingMessage, request: GuardedRequest): Promise<GuardedResponse> {
  const { statusCode: status = 0, headers } = response;
  return { status, contentType: headers['content-type'] ?? '', ...(await readBytes(response, request)) };
}

async function readBytes(
  response: Readable,
  { maxResponseBytes: maxBytes, takeRoom, signal }: GuardedRequest,
): Promise<Pick<GuardedResponse, 'body' | 'isCut'>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isCut = false;
  for await (const chunk of response) {
    const piece: Buffer = Buffer.from(chunk);
    chunks.push(piece.subarray(0, maxBytes - bytes));
    bytes += piece.length;
    isCut = bytes > maxBytes;
    // Leaving the loop ends the connection.
    if (isCut) break;
    await takeRoom?.(bytes, maxBytes, signal);
  }
  return { body: Buffer.concat(chunks), isCut };
}
