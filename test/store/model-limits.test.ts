import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { adapt } from '../../src/domain/model/remedies/adaptation.ts';
import { readModel, rememberAdaptations, rememberLimits } from '../../src/store/work/model-limits.ts';
import { createTestDatabase } from '../support/postgres.ts';

test('the last word of an endpoint counts, and what a call has shown only raises it', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  const key = { provider: 'own', endpoint: 'http://own', model: 'm' };
  const learned = async () => (await readModel(db, key, 'default')).learned;
  await rememberLimits(db, key, { by: 'shown', limits: { contextWindow: 140_000 } });
  expect(await learned()).toEqual({ contextWindow: 140_000 });
  await rememberLimits(db, key, { by: 'told', limits: { contextWindow: 8_192 } });
  await rememberLimits(db, key, { by: 'told', limits: { inputLimit: 4_000 } });
  expect(await learned()).toEqual({ contextWindow: 8_192, inputLimit: 4_000 });
  await rememberLimits(db, key, { by: 'shown', limits: { contextWindow: 5_000 } });
  await rememberLimits(db, key, { by: 'shown', limits: { inputLimit: 4_500 } });
  expect(await learned()).toEqual({ contextWindow: 8_192, inputLimit: 4_500 });
  await rememberLimits(db, key, { by: 'told', limits: { contextWindow: 16_384 } });
  expect(await learned()).toEqual({ contextWindow: 16_384, inputLimit: 4_500 });
});

test('what an endpoint wants of a tenant is remembered for that tenant, and lapses', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  const key = { provider: 'own', endpoint: 'http://own', model: 'm' };
  const known = async (tenant: string) => (await readModel(db, key, tenant)).adaptations;
  const bridge = adapt('bridge_roles');
  const tool = adapt('omit_tool', 'look');
  await rememberAdaptations(db, 'a', key, [tool, bridge, tool]);
  await rememberAdaptations(db, 'a', key, [bridge]);
  expect(await known('a')).toEqual(expect.arrayContaining([bridge, tool]));
  expect(await known('a')).toHaveLength(2);
  expect(await known('b')).toEqual([]);
  await sql`update model_adaptations set learned_at = learned_at - interval '1 day'`.execute(db);
  expect(await known('a')).toEqual([bridge]);
  const files = Array.from({ length: 300 }, (_, at) => adapt('omit_file', `@blob:${at}`));
  await rememberAdaptations(db, 'a', key, files);
  expect((await known('a')).length).toBeLessThanOrEqual(200);
});
