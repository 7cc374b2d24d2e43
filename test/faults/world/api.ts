import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';

const acceptedSchema = z.object({ messageId: z.string(), runId: z.string(), queued: z.boolean() });
const actionSchema = z.object({
  id: z.string(),
  kind: z.enum(['approval', 'output', 'unknown_outcome']),
  args: z.looseObject({ token: z.string() }),
});
const runSchema = z.object({ id: z.string(), status: z.string(), requiredActions: z.array(actionSchema) });
const queueSchema = z.object({ messages: z.array(z.object({ id: z.string() })) });
const clearedSchema = z.object({ removed: z.array(z.string()) });
const resumedSchema = z.object({ runId: z.string() });
const cancelledSchema = z.object({ runId: z.string().nullable() });
const answeredSchema = z.object({ open: z.number() });
const sessionSchema = z.object({ id: z.string(), status: z.string(), activeRunId: z.string().nullable() });

export type Accepted = z.infer<typeof acceptedSchema>;
/** When the request was sent that was answered at last, by `performance.now()`. */
type Sent = Readonly<{ sentAtMs: number }>;
export type RunBody = z.infer<typeof runSchema>;
/** A call that a run waits for. */
export type RequiredAction = z.infer<typeof actionSchema>;
export type CallAnswer = Readonly<{ decision: 'approve' | 'deny' } | { output: string }>;
export type Delivery = 'steer' | 'followup' | 'interrupt';

type Call = Readonly<{ method?: string; body?: object; headers?: Readonly<Record<string, string>>; once?: boolean }>;

/**
 * The HTTP API as a patient client uses it: a request that fails on the way is sent again, under the same id. A change
 * of waiting messages has no id and is sent only once, because the client must know its outcome.
 */
export type Api = Readonly<{
  createSession: () => Promise<string>;
  send: (
    sessionId: string,
    message: Readonly<{ id: string; content: string; delivery: Delivery | 'reject' }>,
  ) => Promise<Accepted & Sent>;
  /** Sends a message under a key that other requests may use for the same message. */
  sendOnce: (
    sessionId: string,
    key: string,
    message: Readonly<{ content: string; delivery: Delivery }>,
  ) => Promise<Readonly<{ accepted: Accepted; isReplay: boolean }>>;
  /** Ids of the waiting messages. */
  waiting: (sessionId: string) => Promise<string[]>;
  /** `change` and `remove` change or take back a waiting message. `late`: the message no longer waited. */
  change: (
    sessionId: string,
    messageId: string,
    change: Readonly<{ content: string } | { delivery: 'steer' | 'followup' }>,
  ) => Promise<'done' | 'late'>;
  remove: (sessionId: string, messageId: string) => Promise<'done' | 'late'>;
  /** Takes all waiting messages back. @returns their ids */
  clear: (sessionId: string) => Promise<string[]>;
  /** @returns the run that goes on */
  resume: (sessionId: string) => Promise<string>;
  /** Waits until the run has ended. @param onWait called whenever the run is seen to wait for people */
  ended: (runId: string, onWait?: (run: RunBody) => Promise<void>) => Promise<RunBody>;
  /** @returns number of calls for which the run still waits */
  answer: (runId: string, callId: string, answer: CallAnswer) => Promise<number>;
  run: (runId: string) => Promise<RunBody>;
  cancel: (runId: string) => Promise<void>;
  /** @returns the run that was at work; null where none was */
  cancelSession: (sessionId: string) => Promise<string | null>;
  session: (sessionId: string) => Promise<z.infer<typeof sessionSchema>>;
}>;

const TERMINAL = ['completed', 'failed', 'cancelled', 'incomplete'];
const RETRY_PAUSE_MS = 50;
const WAIT_MS = 5_000;

/** A client of the API at the address that `url` returns. Every call rejects when the signal aborts. */
export function createApi(url: () => string, signal: AbortSignal): Api {
  const attempt = async (path: string, { body, method, headers }: Call): Promise<Answer> => {
    const sentAtMs = performance.now();
    const response = await fetch(`${url()}${path}`, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { 'content-type': 'application/json', ...headers },
      signal: AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS + 10_000)]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (response.ok) return { body: text === '' ? null : JSON.parse(text), headers: response.headers, sentAtMs };
    const message = `${path} answered ${response.status}: ${text}`;
    throw response.status < 500 ? new Refused(message, response.status) : new Error(message);
  };
  const answered = async (path: string, call: Call): Promise<Answer> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await attempt(path, call);
      } catch (error) {
        if (error instanceof Refused || call.once === true) throw error;
      }
      await delay(RETRY_PAUSE_MS, undefined, { signal });
    }
  };
  const request = async <T>(schema: z.ZodType<T>, path: string, body?: object): Promise<T> =>
    schema.parse((await answered(path, { ...(body !== undefined && { body }) })).body);
  const changing = async (path: string, method: string, body?: object): Promise<'done' | 'late'> => {
    try {
      await answered(path, { method, once: true, ...(body !== undefined && { body }) });
      return 'done';
    } catch (error) {
      if (error instanceof Refused && TOO_LATE.includes(error.status)) return 'late';
      throw error;
    }
  };
  const ended: Api['ended'] = async (runId, onWait) => {
    for (;;) {
      const run = await request(runSchema, `/v1/runs/${runId}/wait?timeoutMs=${WAIT_MS}`);
      if (TERMINAL.includes(run.status)) return run;
      if (run.requiredActions.length > 0) await onWait?.(run);
    }
  };
  return {
    ended,
    createSession: async () => {
      // With the key, the session is created only once, even if an answer was lost.
      const headers = { 'idempotency-key': crypto.randomUUID() };
      const { body } = await answered('/v1/sessions', { body: { agent: 'faulty' }, headers });
      return sessionSchema.parse(body).id;
    },
    send: async (sessionId, message) => {
      const { body, sentAtMs } = await answered(`/v1/sessions/${sessionId}/messages`, { body: message });
      return { ...acceptedSchema.parse(body), sentAtMs };
    },
    answer: async (runId, callId, answer) =>
      (await request(answeredSchema, `/v1/runs/${runId}/tool-calls/${callId}`, answer)).open,
    sendOnce: async (sessionId, key, message) => {
      const headers = { 'idempotency-key': key };
      const answer = await answered(`/v1/sessions/${sessionId}/messages`, { body: message, headers });
      const isReplay = answer.headers.get('idempotency-replayed') === 'true';
      return { accepted: acceptedSchema.parse(answer.body), isReplay };
    },
    waiting: async (sessionId) =>
      (await request(queueSchema, `/v1/sessions/${sessionId}/queue`)).messages.map(({ id }) => id),
    change: (sessionId, messageId, change) => changing(`/v1/sessions/${sessionId}/queue/${messageId}`, 'PATCH', change),
    remove: (sessionId, messageId) => changing(`/v1/sessions/${sessionId}/queue/${messageId}`, 'DELETE'),
    clear: async (sessionId) => {
      const { body } = await answered(`/v1/sessions/${sessionId}/queue`, { method: 'DELETE', once: true });
      return clearedSchema.parse(body).removed;
    },
    resume: async (sessionId) => (await request(resumedSchema, `/v1/sessions/${sessionId}/resume`, {})).runId,
    run: (runId) => request(runSchema, `/v1/runs/${runId}`),
    cancel: async (runId) => void (await request(z.unknown(), `/v1/runs/${runId}/cancel`, {})),
    cancelSession: async (sessionId) => (await request(cancelledSchema, `/v1/sessions/${sessionId}/cancel`, {})).runId,
    session: (sessionId) => request(sessionSchema, `/v1/sessions/${sessionId}`),
  };
}

/** Statuses of the answers for a message that is no longer in the inbox, or with which its session is at work. */
const TOO_LATE: readonly number[] = [404, 409];

type Answer = Readonly<{ body: unknown; headers: Headers }> & Sent;

/** A request that the API refuses, and would refuse again. */
export class Refused extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}
