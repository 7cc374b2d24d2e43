import { z } from 'zod';
import { MESSAGE_ROLES, partSchema } from '../../domain/message.ts';
import { isTerminalRun, RUN_STATUSES, type RunStatus } from '../../domain/run.ts';
import { usageSchema } from '../../domain/usage.ts';
import { ReplayError } from './replay-error.ts';

const acceptedSchema = z.object({ runId: z.string(), queued: z.boolean() });
const runSchema = z.object({
  id: z.string(),
  status: z.enum(RUN_STATUSES),
  steps: z.number(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});
const sessionSchema = z.object({ activeRunId: z.string().nullable() });
/** The API gives a call an id of its own, of which a recording knows nothing. */
const storedPartSchema = z
  .looseObject({ id: z.string().optional() })
  .transform(({ id: _id, ...part }) => part)
  .pipe(partSchema);
const messageSchema = z.object({
  seq: z.number(),
  role: z.enum(MESSAGE_ROLES),
  runId: z.string().nullable(),
  finishReason: z.string().nullable(),
  usage: usageSchema.nullable(),
  parts: z.array(storedPartSchema),
});
const messagePageSchema = z.object({ messages: z.array(messageSchema), next: z.number().nullable() });
const eventSchema = z.object({ seq: z.number(), type: z.string(), data: z.record(z.string(), z.unknown()) });
const eventPageSchema = z.object({ events: z.array(eventSchema), next: z.number() });

type AcceptedMessage = z.infer<typeof acceptedSchema>;
export type Run = z.infer<typeof runSchema>;
/** A durable event as the service gives it out. */
export type StoredEvent = z.infer<typeof eventSchema>;
/** A message of the transcript as the service gives it out. */
export type StoredMessage = z.infer<typeof messageSchema>;

/** The routes that a replay uses. Each rejects with ReplayError `refused` on an answer that is not a success. */
export type ApiClient = Readonly<{
  createSession: (agent: string) => Promise<string>;
  send: (sessionId: string, text: string) => Promise<AcceptedMessage>;
  /** Resolves when the run has ended. Rejects with ReplayError `stalled` when it makes no progress for a minute. */
  waitForEnd: (runId: string) => Promise<Run>;
  /** Resolves when no run of the session is active: after a run its context may be tidied up by one of the service's own. */
  waitForIdle: (sessionId: string) => Promise<void>;
  /** Cancels a run and waits at most `waitMs` milliseconds for its end. Works after the signal was aborted, too. */
  cancelRun: (runId: string, waitMs: number) => Promise<void>;
  hasRuns: (status: RunStatus) => Promise<boolean>;
  transcript: (sessionId: string) => Promise<StoredMessage[]>;
  /** All durable events of the session, in the order of the log. */
  events: (sessionId: string) => Promise<StoredEvent[]>;
}>;

const STALLED_AFTER_MS = 60_000;
const PAGE_SIZE = 200;

/** A client of the service at `baseUrl`; every request ends when `signal` aborts. */
export function createApiClient(baseUrl: string, signal?: AbortSignal): ApiClient {
  const request = async <T>(schema: z.ZodType<T>, path: string, init: RequestInit): Promise<T> => {
    const headers = { accept: 'application/json', 'content-type': 'application/json' };
    const response = await fetch(`${baseUrl}${path}`, { headers, ...init });
    const text = await response.text();
    if (!response.ok) throw new ReplayError('refused', `${path} answered ${response.status}: ${text}`);
    return schema.parse(JSON.parse(text));
  };
  const untilAborted = signal === undefined ? {} : { signal };
  const get = <T>(schema: z.ZodType<T>, path: string): Promise<T> => request(schema, path, untilAborted);
  const post = <T>(schema: z.ZodType<T>, path: string, body: object): Promise<T> =>
    request(schema, path, { method: 'POST', body: JSON.stringify(body), ...untilAborted });
  const waitForEnd = async (runId: string): Promise<Run> => {
    for (let steps = -1; ; ) {
      const run = await get(runSchema, `/v1/runs/${runId}/wait?timeoutMs=${STALLED_AFTER_MS}`);
      if (isTerminalRun(run.status)) return run;
      if (run.steps === steps) {
        throw new ReplayError('stalled', `Run ${runId} is ${run.status} after ${steps} steps and makes no progress.`);
      }
      steps = run.steps;
    }
  };
  return {
    waitForEnd,
    async waitForIdle(sessionId) {
      for (;;) {
        const { activeRunId } = await get(sessionSchema, `/v1/sessions/${sessionId}`);
        if (activeRunId === null) return;
        await waitForEnd(activeRunId);
      }
    },
    createSession: async (agent) => (await post(z.object({ id: z.string() }), '/v1/sessions', { agent })).id,
    send: (sessionId, text) => post(acceptedSchema, `/v1/sessions/${sessionId}/messages`, { content: text }),
    async cancelRun(runId, waitMs) {
      await request(runSchema, `/v1/runs/${runId}/cancel?wait=${waitMs}`, { method: 'POST', body: '{}' });
    },
    async hasRuns(status) {
      const page = z.object({ runs: z.array(z.unknown()) });
      return (await get(page, `/v1/runs?limit=1&status=${status}`)).runs.length > 0;
    },
    async transcript(sessionId) {
      const messages: StoredMessage[] = [];
      for (let after: number | null = 0; after !== null; ) {
        const path = `/v1/sessions/${sessionId}/messages?limit=${PAGE_SIZE}&after=${after}`;
        const page: z.infer<typeof messagePageSchema> = await get(messagePageSchema, path);
        messages.push(...page.messages);
        after = page.next;
      }
      return messages;
    },
    async events(sessionId) {
      const events: StoredEvent[] = [];
      for (let after = 0; ; ) {
        const path = `/v1/sessions/${sessionId}/events?limit=${PAGE_SIZE}&after=${after}`;
        const page = await get(eventPageSchema, path);
        if (page.events.length === 0) return events;
        events.push(...page.events);
        after = page.next;
      }
    },
  };
}
