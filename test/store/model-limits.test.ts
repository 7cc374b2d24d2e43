import { expect, test } from 'vitest';
import { readModel, rememberLimits } from '../../src/store/model-limits.ts';
import { createTestDatabase } from '../support/postgres.ts';

test('the last word of an endpoint counts, and what a call has shown only raises it', async () => {
  await using database = await createTestDatabase();
  const { db } = database;
  const key = { provider: 'own', endpoint: 'http://own', model: 'm' };
  const learned = async () => (await readModel(db, key)).learned;
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
