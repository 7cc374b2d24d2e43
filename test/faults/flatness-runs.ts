import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import type { Reply } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { parseId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { acceptMessage } from '../support/unlimited.ts';
import type { FlatnessService } from './flatness-service.ts';

/** The runs of one session, in this order. Every second run is cancelled, each at another point of its life. */
const SCRIPTED = ['answer', 'cancelled-queued', 'tool', 'cancelled-in-stream', 'answer', 'cancelled-in-tool'] as const;
type Kind = (typeof SCRIPTED)[number];

/** Sessions at work at the same time. */
const LANES = 6;

const WAIT_MS = 30_000;

export type Driver = Readonly<{
  tools: readonly Tool[];
  /** Does so many runs while readers follow the sessions. @throws when a run does not end as it should */
  drive: (service: FlatnessService, runs: number) => Promise<{ cancelled: number }>;
}>;

/** Does short runs over the API, with a reader of the events of every session. */
export function createDriver(): Driver {
  const inTool = new Map<string, PromiseWithResolvers<void>>();
  const inputSchema = { type: 'object' } as const;
  const wait: Tool = {
    name: 'wait',
    description: 'waits to be stopped',
    inputSchema,
    async execute(_input, { sessionId, signal }) {
      inTool.get(sessionId)?.resolve();
      await pause(WAIT_MS, undefined, { signal });
      return 'nobody stopped it';
    },
  };
  const look: Tool = { name: 'look', description: 'looks', inputSchema, execute: async () => 'seen' };

  async function driveSession(service: FlatnessService, kinds: readonly Kind[]): Promise<void> {
    const api = createApi(service.url);
    const session = await api.post('/v1/sessions', { agent: 'tester' }, sessionSchema);
    const sessionId = parseId('session', session.id);
    if (sessionId === null) throw new Error(`${session.id} is no session`);
    await using _reader = await api.read(`/v1/sessions/${session.id}/events`);
    for (const [index, kind] of kinds.entries()) {
      const gate = `${session.id}-${index}`;
      const status =
        kind === 'cancelled-queued'
          ? await cancelBeforeItsJob(service, sessionId, `${kind} ${gate}`)
          : await api.send(session.id, `${kind} ${gate}`, async () => {
              if (kind === 'cancelled-in-stream') await service.simulator.gate(gate).reached;
              if (kind === 'cancelled-in-tool') await toolReached(session.id);
              return kind.startsWith('cancelled');
            });
      const expected = kind.startsWith('cancelled') ? 'cancelled' : 'completed';
      if (status !== expected) throw new Error(`run ${index} of ${session.id} (${kind}) is ${status}`);
    }
  }

  async function toolReached(sessionId: string): Promise<void> {
    const reached = Promise.withResolvers<void>();
    inTool.set(sessionId, reached);
    await reached.promise;
    inTool.delete(sessionId);
  }

  return {
    tools: [wait, look],
    async drive(service, runs) {
      service.simulator.clear();
      service.simulator.script('test', reply);
      const sessions = Array.from({ length: Math.ceil(runs / SCRIPTED.length) }, (_, index) =>
        SCRIPTED.slice(0, Math.min(SCRIPTED.length, runs - index * SCRIPTED.length)),
      );
      const left = sessions.values();
      await Promise.all(
        Array.from({ length: LANES }, async () => {
          for (const kinds of left) await driveSession(service, kinds);
        }),
      );
      return { cancelled: sessions.flat().filter((kind) => kind.startsWith('cancelled')).length };
    },
  };
}

/**
 * Cancels a run in the database, because over the API the run could begin before its cancel. Its job is added all the
 * same and finds nothing to do.
 */
async function cancelBeforeItsJob({ deps }: FlatnessService, sessionId: string, text: string): Promise<string> {
  const { job, runId } = await acceptMessage(deps.db, {
    tenantId: 'default',
    sessionId,
    messageId: deps.newId(),
    content: [{ type: 'text', text }],
    runId: deps.newId(),
  });
  const { status } = await requestCancel(deps.db, 'default', runId);
  if (job !== null) await deps.jobs.add([job]);
  return status;
}

/** The newest message names the answer of the model: a message that a cancel left behind may stand before it. */
function reply({ messages }: SimulatedRequest): Reply {
  const last = messages.at(-1);
  if (last?.role === 'tool') return { text: 'Done.' };
  const [, kind, gate] = last?.text.match(/([a-z-]+) (ses_\S+)$/) ?? [];
  if (kind === 'tool') return { text: 'I look at it.', chunkChars: 4, toolCalls: [{ name: 'look', input: {} }] };
  if (kind === 'cancelled-in-tool') return { toolCalls: [{ name: 'wait', input: {} }] };
  if (kind === 'cancelled-in-stream' && gate !== undefined) {
    return { text: 'Half of it, and the rest.', chunkChars: 4, gates: { afterChunks: { count: 3, gate } } };
  }
  return { text: 'The answer.', chunkChars: 4 };
}

const sessionSchema = z.object({ id: z.string() });
const acceptedSchema = z.object({ runId: z.string() });
const runSchema = z.object({ status: z.string() });

/**
 * Counting stops this process for seconds, in which a kept connection becomes too old: the server would close it on the
 * next request.
 */
const ONE_REQUEST = { connection: 'close' };

function createApi(url: string) {
  async function ask<T>(path: string, schema: z.ZodType<T>, init?: RequestInit): Promise<T> {
    const response = await fetch(`${url}${path}`, { ...init, headers: { ...init?.headers, ...ONE_REQUEST } });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return schema.parse(await response.json());
  }
  const post = <T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> =>
    ask(path, schema, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  return {
    post,
    /** Sends a message and waits for the end of its run. The run is cancelled once `isToStop` resolves with true. */
    async send(sessionId: string, content: string, isToStop: () => Promise<boolean>): Promise<string> {
      const accepted = post(`/v1/sessions/${sessionId}/messages`, { content }, acceptedSchema);
      const [{ runId }, stops] = await Promise.all([accepted, isToStop()]);
      const { status } = stops
        ? await post(`/v1/runs/${runId}/cancel?wait=${WAIT_MS}`, {}, runSchema)
        : await ask(`/v1/runs/${runId}/wait?timeoutMs=${WAIT_MS}`, runSchema);
      return status;
    },
    /** Reads a stream and throws its data away, until it is disposed. */
    async read(path: string): Promise<AsyncDisposable> {
      const leaving = new AbortController();
      const { body } = await fetch(`${url}${path}`, { headers: ONE_REQUEST, signal: leaving.signal });
      const read = (async () => {
        for await (const _ of body ?? []);
      })().catch(() => undefined);
      return {
        async [Symbol.asyncDispose]() {
          leaving.abort();
          await read;
        },
      };
    },
  };
}
