import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';

const acceptedSchema = z.object({ messageId: z.string(), runId: z.string(), queued: z.boolean() });
const runSchema = z.object({ id: z.string(), status: z.string() });
const sessionSchema = z.object({ id: z.string(), status: z.string(), activeRunId: z.string().nullable() });

export type Accepted = z.infer<typeof acceptedSchema>;
type RunBody = z.infer<typeof runSchema>;
export type Delivery = 'steer' | 'followup' | 'interrupt';

/** The HTTP API as a patient client uses it: what fails on the way is sent again, under the same id. */
export type Api = Readonly<{
  createSession: () => Promise<string>;
  send: (
    sessionId: string,
    message: Readonly<{ id: string; content: string; delivery: Delivery }>,
  ) => Promise<Accepted>;
  /** Waits until the run has ended. */
  ended: (runId: string) => Promise<RunBody>;
  run: (runId: string) => Promise<RunBody>;
  cancel: (runId: string) => Promise<void>;
  session: (sessionId: string) => Promise<z.infer<typeof sessionSchema>>;
}>;

const TERMINAL = ['completed', 'failed', 'cancelled', 'incomplete'];
const RETRY_PAUSE_MS = 50;
const WAIT_MS = 5_000;

/** A client of the API whose address `url` tells. Every call rejects when the signal aborts. */
export function createApi(url: () => string, signal: AbortSignal): Api {
  const attempt = async (path: string, body: object | undefined): Promise<unknown> => {
    const response = await fetch(`${url()}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json' },
      signal: AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS + 10_000)]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    const message = `${path} answered ${response.status}: ${text}`;
    throw response.status < 500 ? new Refused(message) : new Error(message);
  };
  const request = async <T>(schema: z.ZodType<T>, path: string, body?: object): Promise<T> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        return schema.parse(await attempt(path, body));
      } catch (error) {
        if (error instanceof Refused || error instanceof z.ZodError) throw error;
      }
      await delay(RETRY_PAUSE_MS, undefined, { signal });
    }
  };
  const ended = async (runId: string): Promise<RunBody> => {
    for (;;) {
      const run = await request(runSchema, `/v1/runs/${runId}/wait?timeoutMs=${WAIT_MS}`);
      if (TERMINAL.includes(run.status)) return run;
    }
  };
  return {
    ended,
    createSession: async () => {
      const id = `ses_${crypto.randomUUID().replaceAll('-', '')}`;
      return (await request(z.object({ id: z.string() }), '/v1/sessions', { agent: 'faulty', id })).id;
    },
    send: (sessionId, message) => request(acceptedSchema, `/v1/sessions/${sessionId}/messages`, message),
    run: (runId) => request(runSchema, `/v1/runs/${runId}`),
    cancel: async (runId) => void (await request(z.unknown(), `/v1/runs/${runId}/cancel`, {})),
    session: (sessionId) => request(sessionSchema, `/v1/sessions/${sessionId}`),
  };
}

class Refused extends Error {}
