import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { openDatabase, type Tx } from '../../src/store/db/database.ts';
import { findAnsweredSessions, inFirstSession, storeQuestion } from '../../src/store/session/conversations.ts';
import { eventually } from '../support/eventually.ts';
import { assistant, conversationSuite, type Replies, user } from './openai-conversations-fixture.ts';

const { service, url, nextModel, gate, sessionsOf, statesOf, runsOf, transcriptsOf, ask, abortAt } =
  conversationSuite();

/** Two answers in one session; the first is held after a few characters. */
const heldAt = (name: string): Replies => [
  { text: 'One two three.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: name } } },
  { text: 'Then.' },
];

describe('the answer of a conversation', () => {
  test('is imported after an abort, with the part that its client has, and the audit log says who cancelled', async () => {
    const model = nextModel(heldAt('part'));
    const told = await abortAt('part', model, [user('Hi')]);
    await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
    service().simulator.script(model, [{ text: 'Then.' }]);
    expect(await ask(model, [user('Hi'), assistant(told), user('And?')])).toBe('Then.');
    const [aborted, imported] = await transcriptsOf(model);
    expect(aborted).toEqual(['user: Hi', `assistant: ${told}`]);
    expect(imported).toEqual([...(aborted ?? []), 'user: And?', 'assistant: Then.']);
    const [run] = await runsOf(model);
    const entries = await service().deps.db.selectFrom('audit_log').selectAll().execute();
    expect(entries.filter(({ target }) => target.includes(run?.id.replaceAll('-', '') ?? '?'))).toMatchObject([
      { action: 'run:cancel', tenant_id: 'default' },
    ]);
  });

  test('begins anew after a failure', async () => {
    const model = nextModel([{ text: 'Better.' }]);
    service().simulator.fault(model, [{ status: 401 }]);
    await expect(ask(model, [user('Hi')])).rejects.toMatchObject({ code: 'auth' });
    expect(await ask(model, [user('Hi')])).toBe('Better.');
    expect((await transcriptsOf(model)).at(-1)).toEqual(['user: Hi', 'assistant: Better.']);
  });

  test('is one client’s: of two that go on from the same answer, the second finds its place taken when it gets the lock', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Next.' }]);
    await ask(model, [user('Hi')]);
    const [session] = await sessionsOf(model);
    const { conversation_head: answerHash } = session ?? {};
    if (answerHash == null || session === undefined) throw new Error('nothing was answered');
    // Without the limit of the service: who waits for a lock here waits for the other one.
    const db = openDatabase({ connectionString: service().deps.databaseUrl });
    const owner = { tenantId: 'default', agentName: model };
    const take = (tx: Tx) =>
      inFirstSession(tx, owner.tenantId, candidates(), async ({ id, conversation_head: current }) =>
        current?.equals(answerHash) === true ? id : null,
      );
    async function* candidates(): AsyncGenerator<string> {
      yield* await findAnsweredSessions(db, owner, answerHash ?? new Uint8Array());
    }
    let second: Promise<string | null> | undefined;
    await db.transaction().execute(async (one) => {
      const found = await take(one);
      second = db.transaction().execute(take);
      await eventually(async () => {
        const { rows } = await sql`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like '%from "sessions"%'`.execute(db);
        return rows.length > 0;
      }, 'the second one has found the session, too, and waits for it');
      expect(found).toBe(session.id);
      await storeQuestion(one, session.id, { questionHash: Buffer.from('question'), keptUntil: null });
    });
    expect(await second).toBeNull();
    await db.destroy();
  });

  test('is one client’s: two that go on at the same moment have a session each', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Next.' }]);
    await ask(model, [user('Hi')]);
    const said = ['from one', 'from two'];
    await Promise.all(said.map((content) => ask(model, [user('Hi'), assistant('Hello!'), user(content)])));
    const heard = (await transcriptsOf(model)).map((lines) => lines.filter((line) => line.startsWith('user: from')));
    expect(heard.map(({ length }) => length)).toEqual([1, 1]);
    expect(heard.flat().toSorted()).toEqual(['user: from one', 'user: from two']);
  });

  test('was asked before its answer: a message over another way that comes first is not lost from sight', async () => {
    const model = nextModel([
      { text: 'Hello!', gates: { beforeEnd: 'between' } },
      { text: 'Other.' },
      { text: 'Next.' },
    ]);
    const first = ask(model, [user('Hi')]);
    await gate('between').reached;
    const [session] = await sessionsOf(model);
    const sent = await fetch(`${url()}/v1/sessions/ses_${session?.id.replaceAll('-', '')}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: 'A secret.', delivery: 'followup' }),
    });
    expect(sent.status).toBe(202);
    gate('between').release();
    expect(await first).toBe('Hello!');
    expect((await sessionsOf(model))[0]).toMatchObject({ conversation_asked: null, conversation_head: null });
    await ask(model, [user('Hi'), assistant('Hello!'), user('More')]);
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('expires a month after its last request, unless it has a name or is to be kept', async () => {
    const model = nextModel(() => ({ text: 'Hello!' }));
    const { db } = service().deps;
    const days = async () => {
      const { rows } = await sql<{ days: number | null }>`
        select round(extract(epoch from expires_at - clock_timestamp()) / 86400)::float8 as days from sessions
        where agent_name = ${model} order by id`.execute(db);
      return rows.map((row) => row.days);
    };
    await ask(model, [user('Hi')]);
    expect(await days()).toEqual([30]);
    await sql`update sessions set expires_at = clock_timestamp() where agent_name = ${model}`.execute(db);
    await ask(model, [user('Hi'), assistant('Hello!'), user('More')]);
    expect(await days()).toEqual([30]);
    await sql`update sessions set expires_at = null where agent_name = ${model}`.execute(db);
    await ask(model, [user('Hi'), assistant('Hello!'), user('More'), assistant('Hello!'), user('Even more')]);
    await ask(model, [user('Hi')], {}, { 'x-session-id': 'mine' });
    expect(await days()).toEqual([null, null]);
  });
});
