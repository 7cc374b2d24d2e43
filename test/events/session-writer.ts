import { sql } from 'kysely';
import { formatId } from '../../src/domain/ids.ts';
import type { Chunk, LiveEvent, NewEvent } from '../../src/domain/run/events.ts';
import { toText } from '../../src/domain/storable-json.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db, Tx } from '../../src/store/db/database.ts';
import { toJson } from '../../src/store/db/json.ts';
import { insertSession, lockSession } from '../../src/store/session/sessions.ts';
import { appendEvents } from '../../src/store/transcript/events.ts';

export const TENANT = 'default';

export type Delta = Readonly<{ type: 'text' | 'reasoning'; text: string }>;

/** A message as its writer knows it: the streamed deltas, and the number of them that are in part_chunks. */
export type WrittenMessage = {
  id: string;
  publicId: string;
  epoch: number;
  step: number;
  deltas: Delta[];
  persisted: number;
};

/**
 * Writes the rows and events of one session as a step worker does, one statement at a time under the test's control.
 */
export type SessionWriter = Readonly<{
  sessionId: string;
  runId: string;
  append: (events: readonly NewEvent[]) => Promise<number>;
  startMessage: () => Promise<{ message: WrittenMessage; seq: number }>;
  /** Adds a delta and returns its preview. */
  stream: (message: WrittenMessage, delta: Delta) => LiveEvent;
  /** Writes the deltas streamed so far to part_chunks. */
  persist: (message: WrittenMessage) => Promise<void>;
  respond: (message: WrittenMessage) => Promise<number>;
  completeStep: (message: WrittenMessage) => Promise<number>;
  reset: (message: WrittenMessage) => Promise<number>;
  /** Adds a message with a call that waits for a person. */
  ask: () => Promise<void>;
  endRun: (status: 'completed' | 'requires_action') => Promise<number>;
}>;

export async function createSessionWriter(db: Db): Promise<SessionWriter> {
  const sessionId = newId();
  const runId = newId();
  await insertSession(db, {
    id: sessionId,
    tenantId: TENANT,
    agentName: 'tester',
    agentVersion: '1',
    agentSnapshot: {},
    title: null,
    metadata: {},
  });
  const publicRunId = formatId('run', runId);
  let step = 0;

  const underLock = <Result>(write: (tx: Tx) => Promise<Result>): Promise<Result> =>
    db.transaction().execute(async (tx) => {
      await lockSession(tx, TENANT, sessionId);
      return write(tx);
    });

  await underLock((tx) => sql`select baton_start_run(${sessionId}, ${runId}, 'task', null)`.execute(tx));

  const writer: SessionWriter = {
    sessionId,
    runId,
    append: (events) => underLock((tx) => appendEvents(tx, sessionId, runId, events)),
    startMessage: () =>
      underLock(async (tx) => {
        step += 1;
        const id = newId();
        const session = await tx
          .updateTable('sessions')
          .set((eb) => ({ epoch: eb('epoch', '+', 1), message_seq: eb('message_seq', '+', 1) }))
          .where('id', '=', sessionId)
          .returning(['epoch', 'message_seq'])
          .executeTakeFirstOrThrow();
        await tx
          .insertInto('messages')
          .values({
            id,
            session_id: sessionId,
            seq: session.message_seq,
            role: 'assistant',
            run_id: runId,
            step_no: step,
            attempt: 1,
            epoch: session.epoch,
            metadata: '{}',
          })
          .execute();
        const publicId = formatId('message', id);
        const seq = await appendEvents(tx, sessionId, runId, [
          { type: 'step:started', data: { runId: publicRunId, step, attempt: 1, messageId: publicId } },
        ]);
        return { message: { id, publicId, epoch: session.epoch, step, deltas: [], persisted: 0 }, seq };
      }),
    stream(message, delta) {
      const offset = textOf(message.deltas).length;
      message.deltas.push(delta);
      return { type: 'llm:chunk', data: chunkOf(message, offset, delta) };
    },
    async persist(message) {
      const fresh = message.deltas.slice(message.persisted);
      if (fresh.length === 0) return;
      let offset = textOf(message.deltas.slice(0, message.persisted)).length;
      const rows = fresh.map(({ type, text }, index) => {
        const place = { session_id: sessionId, message_id: message.id, char_offset: offset, part_idx: index };
        const row = { ...place, type, chunk: toText(text) };
        offset += text.length;
        return row;
      });
      await db.insertInto('part_chunks').values(rows).execute();
      message.persisted = message.deltas.length;
    },
    respond: (message) =>
      underLock(async (tx) => {
        const parts = partsOf(message.deltas);
        const response = { messageId: message.id, parts, finishReason: 'stop', model: 'model', usage: NO_USAGE };
        await sql`select baton_apply_response(${sessionId}, ${toJson(response)}::jsonb)`.execute(tx);
        const reasoning = textOf(message.deltas.filter(({ type }) => type === 'reasoning'));
        return appendEvents(tx, sessionId, runId, [
          {
            type: 'llm:response',
            data: {
              messageId: message.publicId,
              content: textOf(message.deltas.filter(({ type }) => type === 'text')),
              ...(reasoning === '' ? {} : { reasoning }),
              provider: 'simulated',
              model: 'model',
              finishReason: 'stop',
              tokenUsage: NO_USAGE,
            },
          },
        ]);
      }),
    completeStep: (message) =>
      underLock((tx) =>
        appendEvents(tx, sessionId, runId, [
          {
            type: 'step:completed',
            data: {
              runId: publicRunId,
              step: message.step,
              attempt: 1,
              messageId: message.publicId,
              finishReason: 'stop',
              toolCalls: 0,
              usage: NO_USAGE,
            },
          },
        ]),
      ),
    reset: (message) =>
      underLock(async (tx) => {
        const response = { messageId: message.id, parts: [], superseded: true };
        await sql`select baton_apply_response(${sessionId}, ${toJson(response)}::jsonb)`.execute(tx);
        return appendEvents(tx, sessionId, runId, [
          { type: 'step:reset', data: { runId: publicRunId, step: message.step, messageId: message.publicId } },
        ]);
      }),
    async ask() {
      const { message } = await writer.startMessage();
      const call = { type: 'tool', toolCallId: 'call', toolName: 'deploy', input: {}, state: 'pending' };
      await underLock(async (tx) => {
        const response = { messageId: message.id, parts: [call] };
        await sql`select baton_apply_response(${sessionId}, ${toJson(response)}::jsonb)`.execute(tx);
        await sql`update parts set required_action = 'approval' where message_id = ${message.id}`.execute(tx);
      });
    },
    endRun: (status) =>
      underLock(async (tx) => {
        await sql`update runs set status = 'running' where id = ${runId} and status = 'queued'`.execute(tx);
        await sql`update runs set status = ${status} where id = ${runId}`.execute(tx);
        const idle = status === 'completed';
        if (idle) {
          await tx
            .updateTable('sessions')
            .set({ status: 'idle', active_run_id: null })
            .where('id', '=', sessionId)
            .execute();
        }
        return appendEvents(tx, sessionId, runId, [
          idle
            ? { type: 'run:completed', data: { runId: publicRunId, finishReason: 'stop' } }
            : { type: 'run:requires-action', data: { runId: publicRunId, calls: [] } },
        ]);
      }),
  };
  return writer;
}

export const textOf = (deltas: readonly Delta[]): string => deltas.map(({ text }) => text).join('');

/** Text with its type in front, so that a swap of types is seen. */
export function typedText(pieces: readonly Delta[]): string {
  return partsOf(pieces)
    .map(({ type, text }) => `${type}:${text}`)
    .join('|');
}

/** Neighbours of one type as one part, as a response has them. */
function partsOf(deltas: readonly Delta[]): Delta[] {
  const parts: { type: Delta['type']; text: string }[] = [];
  for (const { type, text } of deltas) {
    const last = parts.at(-1);
    if (last?.type === type) last.text += text;
    else parts.push({ type, text });
  }
  return parts;
}

function chunkOf(message: WrittenMessage, offset: number, { type, text }: Delta): Chunk {
  return { messageId: message.publicId, epoch: message.epoch, offset, chunkType: type, content: text };
}
