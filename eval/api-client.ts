import { z } from 'zod';
import { BatonError } from '../src/client/baton-error.ts';
import { createClient } from '../src/client/client.ts';
import type { SentMessage, Run as ServiceRun } from '../src/client/contract.ts';
import type { MessagePage } from '../src/client/messages.ts';
import { isTerminalRun, type RunStatus } from '../src/domain/run/run.ts';
import { MESSAGE_ROLES, partSchema } from '../src/domain/transcript/message.ts';
import { usageSchema } from '../src/domain/usage.ts';
import { ReplayError } from './replay-error.ts';

/** Fields that only the API adds: a call's id, and how the view shows a part. A recording has none of them. */
const OF_THE_API = ['id', 'compactedAt', 'mediaStrippedAt', 'viewLimitChars', 'originalTokens', 'truncated'];
const storedPartSchema = z
  .looseObject({})
  .transform((part) => Object.fromEntries(Object.entries(part).filter(([key]) => !OF_THE_API.includes(key))))
  .pipe(partSchema);
const messageSchema = z.object({
  seq: z.number(),
  role: z.enum(MESSAGE_ROLES),
  runId: z.string().nullable(),
  finishReason: z.string().nullable(),
  usage: usageSchema.nullable(),
  parts: z.array(storedPartSchema),
});
export type Run = Pick<ServiceRun, 'id' | 'status' | 'steps' | 'error'>;
export type StoredEvent = Readonly<{ seq: number; type: string; data: Readonly<Record<string, unknown>> }>;
export type StoredMessage = z.infer<typeof messageSchema>;

/** The routes that a replay uses. Each rejects with ReplayError `refused` if the service answers with an error. */
export type ApiClient = Readonly<{
  createSession: (agent: string) => Promise<string>;
  send: (sessionId: string, text: string) => Promise<Pick<SentMessage, 'runId' | 'queued'>>;
  /** Resolves when the run has ended. Rejects with ReplayError `stalled` if it makes no progress for a minute. */
  waitForEnd: (runId: string) => Promise<Run>;
  /** Resolves when no run of the session is active: after a run the service may start a maintenance run. */
  waitForIdle: (sessionId: string) => Promise<void>;
  /** Cancels a run and waits at most `waitMs` milliseconds for its end. Also works after the signal was aborted. */
  cancelRun: (runId: string, waitMs: number) => Promise<void>;
  hasRuns: (status: RunStatus) => Promise<boolean>;
  transcript: (sessionId: string) => Promise<StoredMessage[]>;
  /** All durable events of the session, in the order of the log. */
  events: (sessionId: string) => Promise<StoredEvent[]>;
}>;

const STALLED_AFTER_MS = 60_000;
const PAGE_SIZE = 200;

export type ApiClientOptions = Readonly<{
  /** Ends every request but a cancel. */
  signal?: AbortSignal | undefined;
  /** Needed if the database has API keys. */
  apiKey?: string | undefined;
}>;

export function createApiClient(baseUrl: string, { signal, apiKey }: ApiClientOptions = {}): ApiClient {
  const client = createClient({ baseUrl, apiKey, retries: 0 });
  const waitForEnd = async (runId: string): Promise<Run> => {
    for (let steps = -1; ; ) {
      const run = await answered(client.runs.wait(runId, { timeoutMs: STALLED_AFTER_MS, signal }));
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
        const { activeRunId } = await answered(client.sessions.get(sessionId, { signal }));
        if (activeRunId === null) return;
        await waitForEnd(activeRunId);
      }
    },
    createSession: async (agent) => (await answered(client.sessions.create({ agent }, { signal }))).id,
    send: (sessionId, text) => answered(client.send(sessionId, text, { signal })),
    cancelRun: async (runId, waitMs) => void (await answered(client.runs.cancel(runId, { waitMs }))),
    hasRuns: async (status) => (await answered(client.runs.list({ limit: 1, status, signal }))).runs.length > 0,
    async transcript(sessionId) {
      const messages: StoredMessage[] = [];
      for (let after: number | null = 0; after !== null; ) {
        const page: MessagePage = await answered(client.messages(sessionId, { limit: PAGE_SIZE, after, signal }));
        messages.push(...z.array(messageSchema).parse(page.messages));
        after = page.next;
      }
      return messages;
    },
    async events(sessionId) {
      const events: StoredEvent[] = [];
      for (let after = 0; ; ) {
        const page = await answered(client.eventPage(sessionId, { limit: PAGE_SIZE, after, signal }));
        if (page.events.length === 0) return events;
        events.push(...page.events);
        after = page.next;
      }
    },
  };
}

async function answered<Body>(answer: Promise<Body>): Promise<Body> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof BatonError)) throw error;
    throw new ReplayError('refused', `The service answered ${error.code}: ${error.message}`, { cause: error });
  }
}
