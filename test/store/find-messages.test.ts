import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WORD_WINDOW_BITS } from '../../src/domain/tunables.ts';
import { searchSessions } from '../../src/store/lists/session-search.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { propertyRuns } from '../support/property-runs.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
beforeAll(async () => {
  database = await createTestDatabase({ isNew: true });
});
afterAll(() => database[Symbol.asyncDispose]());

/** Sessions of one stretch: so many, so far apart, each message one in so many with the word. */
const stretch = fc.record({
  sessions: fc.integer({ min: 1, max: 60 }),
  apartSeconds: fc.constantFrom(0, 1, 40, 3_600, 20_000, 500_000),
  messages: fc.constantFrom(1, 2, 9, 60),
  oneIn: fc.constantFrom(1, 2, 30, 400, 100_000),
});
type Stretch = typeof stretch extends fc.Arbitrary<infer Value> ? Value : never;

/** Newest stretch first. A fifth of the messages is reverted or superseded. */
async function fill(tenantId: string, stretches: readonly Stretch[]): Promise<void> {
  const { db } = database;
  let ageSeconds = 0;
  for (const { sessions, apartSeconds, messages, oneIn } of stretches) {
    await sql`
      with made as (
        insert into sessions (id, tenant_id, agent_name, agent_version, agent_snapshot, created_at)
        select gen_random_uuid(), ${tenantId}, 'coder', '1', '{}',
          timestamptz '2026-01-01' - make_interval(secs => ${ageSeconds}::integer + n * ${apartSeconds}::integer)
        from generate_series(1, ${sessions}::integer) n returning id, created_at
      ), said as (
        insert into messages (id, tenant_id, session_id, seq, role, run_id, superseded, reverted_no)
        select gen_random_uuid(), ${tenantId}, made.id, seq, 'user', null, hashtext(made.id || '/' || seq) % 10 = 0,
          case when hashtext(made.id || '/' || seq) % 10 = 1 then 1 end
        from made, generate_series(1, ${messages}::integer) seq returning session_id, seq
      )
      insert into message_words (session_id, seq, tenant_id, created_at, words)
      select made.id, seq, ${tenantId}, made.created_at, array_to_tsvector(array[${tenantId} || ' word' || seq]
        || case when hashtext(seq || '/' || made.id) % ${oneIn}::integer = 0 then array[${tenantId} || ' needle'] else '{}' end
        || array(select ${tenantId} || ' #' || bits || ':' || (floor(extract(epoch from made.created_at))::bigint >> bits)
          from unnest(${[...WORD_WINDOW_BITS]}::integer[]) as bits))
      from said join made on made.id = said.session_id`.execute(db);
    ageSeconds += sessions * apartSeconds;
  }
}

/** All sessions with the word in a message that is shown, newest first, and the newest such message of each. */
async function reference(tenantId: string): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select w.session_id as id from message_words w join messages m using (session_id, seq)
    where w.tenant_id = ${tenantId} and w.words @@ ${`'${tenantId} needle'`}::tsquery and not m.superseded and m.reverted_no is null
    group by w.session_id, w.created_at order by w.created_at desc, w.session_id desc`.execute(database.db);
  return rows.map(({ id }) => id);
}

test('pages of a search hold all sessions with the word, newest first and each once, however they lie in time', async () => {
  let tenants = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(stretch, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 60 }),
      async (stretches, limit) => {
        const tenantId = `t'${tenants++}`.replace("'", '-');
        await fill(tenantId, stretches);
        const found: string[] = [];
        let after: { createdAt: string; id: string } | null | undefined;
        do {
          const search = { tenantId, limit, words: 'needle', inMessages: true, ...(after && { after }) };
          const page = await searchSessions(database.db, search);
          found.push(...page.rows.map(({ id }) => id));
          const last = page.rows.at(-1);
          const next =
            page.rows.length === limit && last
              ? { createdAt: last.created_at.toISOString(), id: last.id }
              : page.stoppedAt;
          // Each page gets further.
          expect(next).not.toEqual(after);
          after = next;
        } while (after);
        expect(found).toEqual(await reference(tenantId));
      },
    ),
    { numRuns: propertyRuns(0.5) },
  );
}, 120_000);
