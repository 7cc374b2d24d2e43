import { describe, expect, test } from 'vitest';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { foreignIds, idsIn } from './owners.ts';
import { judgeStream } from './streams.ts';
import { asWriter, NOBODY, noteWrites, openNotedDatabase, WORKERS } from './written.ts';

async function createSession(db: Db, tenantId: string): Promise<string> {
  const id = newId();
  const agent = { agentName: 'a', agentVersion: 'v', agentSnapshot: {} };
  await insertSession(db, { id, tenantId, ...agent, title: null, metadata: {} });
  return id;
}

describe('what the fuzz knows of writes', () => {
  test('is who made each change of a tenant’s row, also after the request; not what was rolled back or changes nothing', async () => {
    await using database = await createTestDatabase();
    const { db, connectionString } = database;
    const takeAll = await noteWrites(db);
    // A trigger writes the words of a session beside it, for the same writer.
    const take = async () => (await takeAll()).filter(({ what }) => !what.endsWith(' session_words'));
    const noted = openNotedDatabase(connectionString);
    const later = Promise.withResolvers<void>();
    const left = asWriter('#1', async () => {
      await createSession(noted, 'alpha');
      return { later: later.promise.then(() => createSession(noted, 'beta')) };
    });
    const { later: last } = await left;
    await createSession(noted, 'gamma');
    const own = await createSession(db, 'alpha');
    await asWriter('#2', () => noted.updateTable('sessions').set({ title: null }).where('id', '=', own).execute());
    await asWriter('#3', async () => {
      const tx = await noted.startTransaction().execute();
      await tx.deleteFrom('sessions').where('id', '=', own).execute();
      await tx.rollback().execute();
    });
    expect((await take()).toSorted((a, b) => (a.writer < b.writer ? -1 : 1))).toEqual([
      { writer: '#1', tenant: 'alpha', what: 'insert sessions' },
      { writer: NOBODY, tenant: 'gamma', what: 'insert sessions' },
      { writer: WORKERS, tenant: 'alpha', what: 'insert sessions' },
    ]);
    later.resolve();
    await last;
    await asWriter('#4', () => noted.deleteFrom('sessions').where('id', '=', own).execute());
    expect((await take()).toSorted((a, b) => (a.writer < b.writer ? -1 : 1))).toEqual([
      { writer: '#1', tenant: 'beta', what: 'insert sessions' },
      { writer: '#4', tenant: 'alpha', what: 'delete sessions' },
    ]);
    await noted.destroy();
  });
});

test('the fuzz knows an id of the other tenant in any text', async () => {
  await using database = await createTestDatabase();
  const [own, other] = [await createSession(database.db, 'alpha'), await createSession(database.db, 'beta')];
  const [mine, foreign] = [own, other].map((id) => `ses_${id.replaceAll('-', '')}`);
  const said = idsIn(`{"a":"${mine}","b":["x ${foreign}/y"],"c":"ses_${'0'.repeat(32)}"}`);
  expect(await foreignIds(database.db, 'alpha', said)).toEqual([foreign]);
});

const event = (type: string, data: object, id?: number): string => {
  const envelope = { type, ...(id !== undefined && { seq: id, createdAt: '2026-01-01T00:00:00.000Z' }), data };
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(envelope)}\n\n`;
};
const snapshot = event('session:snapshot', {
  sessionId: 'ses_1',
  status: 'idle',
  activeRunId: null,
  seq: 2,
  queue: [],
  inFlight: null,
  reset: false,
  usage: NO_USAGE,
  compactingSince: null,
  context: null,
});
const started = (id: number): string => event('run:started', { runId: 'run_1' }, id);
const data = (value: object | string): string =>
  `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const completion = (delta: object, id = 'chatcmpl-1'): string => {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: null }];
  return data({ id, object: 'chat.completion.chunk', created: 1, model: 'm', choices });
};
const role = completion({ role: 'assistant', content: '', refusal: null });
const textStart = data({ type: 'text-start', id: 't' });
const grows = (delta: string): string => data({ type: 'text-delta', id: 't', delta });

describe('what the fuzz takes for a stream', () => {
  test('is one whose texts are put together', async () => {
    const chunks = [role, ': compacting\n\n', completion({ content: 'a sec' }), completion({ content: 'ret' })];
    expect(await judgeStream('completion', [...chunks, data('[DONE]')].join(''), true)).toEqual({
      said: 'a secret',
      wrong: [],
    });
    const parts = [textStart, grows('a sec'), grows('ret'), data('[DONE]')];
    expect(await judgeStream('UI messages', parts.join(''), true)).toEqual({ said: 'a secret', wrong: [] });
    // One that was hung up on ends anywhere.
    expect((await judgeStream('UI messages', `${textStart}data: {"ty`, false)).wrong).toEqual([]);
  });

  test.each([
    ['session events', `${snapshot}${started(3)}${started(5)}`, /a gap after event 3/],
    ['session events', started(3), /a snapshot that is not the beginning/],
    ['session events', `${snapshot}${event('run:started', { runId: 'run_1', more: 1 }, 3)}`, /other data/],
    ['session events', `${snapshot}${event('heartbeat', { seq: 2 }, 3)}`, /moves the cursor/],
    ['session events', `${snapshot}${started(3).replace('event: run:started', 'event: x')}`, /under another name/],
    ['session events', 'nonsense\n\n', /no frame/],
    ['completion', role, /ends before its end/],
    ['completion', `${role}data: {"id`, /ends within a frame/],
    ['completion', `${role}${completion({ content: 'x' }, 'chatcmpl-2')}${data('[DONE]')}`, /of another completion/],
    ['completion', `${completion({ content: 'x' })}${data('[DONE]')}`, /a role/],
    ['completion', `${role}${data('[DONE]')}${role}`, /after the end/],
    ['completion', `${role}${data({ choices: [] })}${data('[DONE]')}`, /no chunk of a completion/],
    ['UI messages', `${grows('x')}${data('[DONE]')}`, /grows before it has begun/],
    ['UI messages', `${data({ type: 'nonsense' })}${data('[DONE]')}`, /no chunk of UI messages/],
    ['UI messages', textStart, /ends before its end/],
  ] as const)('is no stream of %s: %j', async (kind, text, wrong) => {
    expect((await judgeStream(kind, text, true)).wrong.join('; ')).toMatch(wrong);
  });
});
