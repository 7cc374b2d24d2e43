import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';

/** The neighbour reads a session, creates one, or waits for a whole run. */
export const REQUEST_KINDS = ['read', 'create', 'run'] as const;
export type RequestKind = (typeof REQUEST_KINDS)[number];

/**
 * Requests of each kind per second: more than a hundred in eleven seconds, so that the p99 is not the slowest one, and few
 * enough that a busy machine serves them in quiet without a queue.
 */
const PACE = 10;

/** A request without an answer after this time has failed. */
const ANSWER_WITHIN_MS = 30_000;

export type Neighbour = Readonly<{ url: string; headers: Readonly<Record<string, string>> }>;

/** A message of the neighbour that the API has accepted. */
type Taken = Readonly<{ messageId: string; runId: string; token: string }>;

/** Sessions and messages of the neighbour that the API has accepted. */
export type Kept = Readonly<{ sessions: string[]; taken: Taken[] }>;

const createdSchema = z.object({ id: z.string() });
const acceptedSchema = z.object({ messageId: z.string(), runId: z.string() });
const runSchema = z.object({ status: z.string() });

const AGENT = 'neighbour';
const WAIT_MS = 25_000;

/** One function for each kind of request. It rejects if the request fails. */
export function createRequests(
  { url, headers }: Neighbour,
  kept: Kept,
): Readonly<Record<RequestKind, () => Promise<void>>> {
  const ask = async <T>(schema: z.ZodType<T>, path: string, body?: object): Promise<T> => {
    const response = await fetch(url + path, {
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      headers: { ...headers, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 300)}`);
    return schema.parse(JSON.parse(text));
  };
  const create = async (): Promise<string> => {
    const { id } = await ask(createdSchema, '/v1/sessions', { agent: AGENT });
    kept.sessions.push(id);
    return id;
  };
  return {
    create: async () => void (await create()),
    async read() {
      const [id = await create()] = kept.sessions;
      await ask(createdSchema, `/v1/sessions/${id}`);
    },
    async run() {
      const session = await create();
      const token = crypto.randomUUID();
      const accepted = await ask(acceptedSchema, `/v1/sessions/${session}/messages`, { content: `token ${token}` });
      kept.taken.push({ ...accepted, token });
      const { status } = await ask(runSchema, `/v1/runs/${accepted.runId}/wait?timeoutMs=${WAIT_MS}`);
      if (status !== 'completed') throw new Error(`the run is ${status} after ${WAIT_MS} ms`);
    },
  };
}

/** Makes requests at their pace, whether or not earlier ones were answered, until the signal aborts. */
export async function keepPace(request: () => void, signal: AbortSignal): Promise<void> {
  const pauseMs = 1_000 / PACE;
  for (let dueAtMs = performance.now(); !signal.aborted; dueAtMs += pauseMs) {
    await delay(Math.max(0, dueAtMs - performance.now()), undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) request();
  }
}
