import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTextAppender } from '../../src/step/text-appender.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { isStoreUnavailable } from '../../src/store/db/store-unavailable.ts';
import { readChunks } from '../../src/store/transcript/chunks.ts';
import type { TextChunk } from '../../src/store/work/step-writes.ts';
import { openRace } from '../store/race.ts';
import { countStatements } from '../support/count-statements.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const chunk = (text: string, charOffset = 0, type: TextChunk['type'] = 'text'): TextChunk => ({
  charOffset,
  partIndex: type === 'text' ? 1 : 0,
  type,
  text,
});

it('writes what several sessions stream in one statement, and tells who has lost its run', async () => {
  const claimed = [];
  for (let index = 0; index < 3; index++) {
    const race = await openRace(database.db);
    claimed.push({ sessionId: race.sessionId, ...(await race.begin()) });
  }
  const [first, fenced, last] = claimed;
  if (first === undefined || fenced === undefined || last === undefined) throw new Error('there are three');
  const { db, seen } = countStatements(database.db);
  const append = createTextAppender(db);
  const held = await Promise.all([
    append({ ...first, chunks: [chunk('Hm.', 0, 'reasoning'), chunk('One', 3)] }),
    append({ ...fenced, fence: { ...fenced.fence, epoch: fenced.fence.epoch - 1 }, chunks: [chunk('late')] }),
    append({ ...last, chunks: [chunk('Three \u0000')] }),
  ]);
  expect(held).toEqual([true, false, true]);
  expect(seen.statements).toBe(1);
  const written = await Promise.all(claimed.map((key) => readChunks(database.db, key, 0)));
  expect(written).toEqual([
    [
      { charOffset: 0, type: 'reasoning', text: 'Hm.' },
      { charOffset: 3, type: 'text', text: 'One' },
    ],
    [],
    [{ charOffset: 0, type: 'text', text: 'Three \ufffd' }],
  ]);
});

it('tells everybody at once that Postgres is away: asking for each of them would take as many timeouts', async () => {
  const { messageId, fence } = await (await openRace(database.db)).begin();
  const away = openDatabase({ connectionString: 'postgres://127.0.0.1:1/away', onConnectionError: () => undefined });
  const { db, seen } = countStatements(away);
  const append = createTextAppender(db);
  const streamed = { fence, messageId, chunks: [chunk('in vain')] };
  const ends = await Promise.allSettled([1, 2, 3].map(() => append(streamed)));
  expect(ends.every((end) => end.status === 'rejected' && isStoreUnavailable(end.reason))).toBe(true);
  expect(seen.statements).toBe(1);
  await away.destroy();
});
