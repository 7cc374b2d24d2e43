import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProviderResponse } from '../domain/model/provider-response.ts';
import { patientFetch } from '../platform/patient-fetch.ts';
import { parsed, readEvents, readText, toStream, type WholeResponse, wholeResponseSchema } from './response-stream.ts';

/** A model call whose answer the provider makes in the background. */
export type BackgroundCall = Readonly<{
  /** The response of an earlier attempt at the same step. Null: there is none. */
  earlier: ProviderResponse | null;
  /**
   * Called once, as soon as the response's id is known. `isEarlier`: it is the earlier response, and the model was not
   * asked.
   */
  onResponse: (response: ProviderResponse, isEarlier: boolean) => void;
}>;

/** The endpoint at which the provider makes responses and gives them again. */
type Responses = Readonly<{ url: string; headers: NonNullable<RequestInit['headers']>; signal?: AbortSignal | null }>;

/** Attempts in a row to reopen a lost connection, and the pause before the first. Each pause is twice the last. */
const REOPENINGS = 4;
const FIRST_REOPENING_MS = 100;

/** Pause between two looks at a response whose stream is too old to be read. */
const POLL_MS = 1_000;

const CANCEL_WITHIN_MS = 2_000;

/** The statuses of a response that has an answer. */
const ANSWERED = ['completed', 'incomplete'];
const UNDER_WAY = ['queued', 'in_progress'];

/**
 * A `fetch` for OpenAI's Responses protocol that asks for a response in the background. A lost connection is opened
 * again where it broke, unseen by the SDK. The response of an earlier attempt is read again in place of a new one, if
 * the request is the same and the provider still has it.
 */
export function fetchInBackground(provider: string, call: BackgroundCall): typeof fetch {
  return async (input, init = {}) => {
    const body = toBackground(String(init.body));
    const requestSha256 = createHash('sha256').update(body).digest('hex');
    const at = { url: String(input), headers: init.headers ?? {}, signal: init.signal ?? null };
    const { earlier } = call;
    const isSame = earlier?.provider === provider && earlier.requestSha256 === requestSha256;
    if (earlier?.provider === provider && !isSame) void cancelResponse(at, earlier.id);
    const again = isSame ? await readAgain(at, earlier.id) : null;
    const answer = again ?? (await patientFetch(input, { ...init, body }));
    if (!answer.ok || answer.body === null) return answer;
    const report = (id: string) => call.onResponse({ id, provider, requestSha256 }, again !== null);
    const { status, headers } = answer;
    return new Response(ReadableStream.from(follow(at, answer.body, report)), { status, headers });
  };
}

/** The SDK is told that nothing is stored, so that it refers to no stored items: each request is whole. */
const toBackground = (body: string): string =>
  JSON.stringify({ ...(JSON.parse(body) as Record<string, unknown>), background: true, store: true });

/** Progress in reading an answer, over all of its connections. */
type Reading = { id: string | null; last: number; isOver: boolean; failures: number };

/** Yields the answer to its end. If a connection breaks, the next one goes on where it broke. */
async function* follow(
  at: Responses,
  first: ReadableStream<Uint8Array>,
  onId: (id: string) => void,
): AsyncGenerator<Uint8Array> {
  const reading: Reading = { id: null, last: -1, isOver: false, failures: 0 };
  for (let body = first; ; reading.failures += 1) {
    let broke: unknown = null;
    try {
      yield* readOn(body, reading, onId);
    } catch (error) {
      broke = error;
    }
    if (reading.isOver) return;
    if (at.signal?.aborted === true) throw at.signal.reason;
    const next = await reopen(at, reading);
    if (next === null && broke !== null) throw broke;
    if (next === null) return;
    body = next;
  }
}

async function* readOn(
  body: ReadableStream<Uint8Array>,
  reading: Reading,
  onId: (id: string) => void,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const { text, sequence, responseId, isLast } of readEvents(body)) {
    // A reopened stream may begin with events that were already read.
    if (sequence !== null && sequence <= reading.last) continue;
    if (reading.id === null && responseId !== null) {
      reading.id = responseId;
      onId(responseId);
    }
    reading.last = sequence ?? reading.last;
    reading.isOver = isLast;
    reading.failures = 0;
    yield encoder.encode(text);
    if (isLast) return;
  }
}

/** The rest of a stream. Null: the provider does not give it. */
async function reopen(at: Responses, { id, last, failures }: Reading): Promise<Response['body']> {
  if (id === null) return null;
  const query = `?stream=true${last < 0 ? '' : `&starting_after=${last}`}`;
  for (let no = failures; no < REOPENINGS; no += 1) {
    await delay(FIRST_REOPENING_MS * 2 ** no, undefined, at.signal ? { signal: at.signal } : {});
    const answer = await get(at, id, query).catch(() => null);
    if (answer?.ok === true) return answer.body;
    await answer?.body?.cancel();
    if (answer !== null && isRefused(answer)) return null;
  }
  return null;
}

/**
 * The response as a stream from its start, or the error by which the provider refuses it for now. Null: the provider
 * has no such response, or the response has no answer.
 */
async function readAgain(at: Responses, id: string): Promise<Response | null> {
  const found = await readWhole(at, id);
  if (found instanceof Response || found === null) return found;
  const stream = await get(at, id, '?stream=true');
  if (!isRefused(stream)) return stream;
  await stream.body?.cancel();
  // The response is too old to be streamed, so its answer is read as a whole.
  for (let whole: WholeResponse = found; ; ) {
    if (ANSWERED.includes(whole.status)) {
      return new Response(toStream(whole), { headers: { 'content-type': 'text/event-stream' } });
    }
    await delay(POLL_MS, undefined, at.signal ? { signal: at.signal } : {});
    const next = await readWhole(at, id);
    if (next instanceof Response || next === null) return next;
    whole = next;
  }
}

async function readWhole(at: Responses, id: string): Promise<WholeResponse | Response | null> {
  const answer = await get(at, id);
  if (!answer.ok) return isRefused(answer) ? null : answer;
  const { data } = wholeResponseSchema.safeParse(parsed(await readText(answer)));
  return data !== undefined && [...ANSWERED, ...UNDER_WAY].includes(data.status) ? data : null;
}

/** Whether the provider refuses for another reason than its load or the key, so that asking again does not help. */
const isRefused = ({ status }: Response): boolean => [400, 404, 405, 409, 410, 422].includes(status);

const get = ({ url, headers, signal }: Responses, id: string, query = ''): Promise<Response> =>
  patientFetch(`${url}/${encodeURIComponent(id)}${query}`, { headers, signal: signal ?? null });

/** Asks the provider to stop making a response. Never rejects, even if the provider does not answer in time. */
export async function cancelResponse({ url, headers }: Responses, id: string): Promise<void> {
  const signal = AbortSignal.timeout(CANCEL_WITHIN_MS);
  const cancelled = patientFetch(`${url}/${encodeURIComponent(id)}/cancel`, { method: 'POST', headers, signal });
  await cancelled.then((answer) => answer.body?.cancel()).catch(() => undefined);
}
