import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { pauseLeftMs, pauseModel } from '../../src/store/work/provider-pauses.ts';
import { createTestDatabase } from '../support/postgres.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database[Symbol.asyncDispose]());

const MINUTE_MS = 60_000;
const SECONDS_MS = 5_000;

/** A new model without any pauses. `tell` notes a pause that a session was told, and `left` reads a tenant's pause. */
function freshModel() {
  const model = { endpoint: 'https://a.example', credential: 'one', modelId: newId() };
  const tell = (tenantId: string, sessionId: string, pauseMs: number) =>
    pauseModel(db, model, { tenantId, sessionId }, pauseMs);
  const left = (tenantId: string, of = {}) => pauseLeftMs(db, { ...model, ...of }, tenantId);
  return { tell, left, modelId: model.modelId };
}

/** At most `ms` and above half of it, because the test itself takes time. */
const about = (ms: number) => expect.toSatisfy((left: number) => left > ms / 2 && left <= ms, `about ${ms} ms`);

describe('what one session is told', () => {
  it('holds its tenant off for seconds, also where it is told again', async () => {
    const { tell, left } = freshModel();
    const session = newId();
    await tell('a', session, 10 * MINUTE_MS);
    expect(await left('a')).toEqual(about(SECONDS_MS));
    await tell('a', session, 15 * MINUTE_MS);
    expect(await left('a')).toEqual(about(SECONDS_MS));
  });

  it('holds off no other tenant, model, key or address', async () => {
    const { tell, left } = freshModel();
    await tell('a', newId(), 10 * MINUTE_MS);
    expect(await left('b')).toBe(0);
    expect(await left('a', { modelId: newId() })).toBe(0);
    expect(await left('a', { credential: 'two' })).toBe(0);
    expect(await left('a', { endpoint: 'https://b.example' })).toBe(0);
  });

  it('is over when it is over', async () => {
    const { tell, left } = freshModel();
    await tell('a', newId(), 0);
    expect(await left('a')).toBe(0);
  });
});

describe('what several sessions are told', () => {
  it('holds their tenant off for as long as two of them were told, and no other one', async () => {
    const { tell, left } = freshModel();
    for (const pauseMs of [10 * MINUTE_MS, 2 * MINUTE_MS, MINUTE_MS]) await tell('a', newId(), pauseMs);
    expect(await left('a')).toEqual(about(2 * MINUTE_MS));
    expect(await left('b')).toBe(0);
    await tell('a', newId(), 20 * MINUTE_MS);
    expect(await left('a')).toEqual(about(10 * MINUTE_MS));
  });

  it('of two tenants holds all of them off, for as long as both were told', async () => {
    const { tell, left } = freshModel();
    for (const _ of [1, 2, 3]) await tell('a', newId(), 10 * MINUTE_MS);
    await tell('b', newId(), MINUTE_MS);
    expect(await left('c')).toEqual(about(MINUTE_MS));
    expect(await left('b')).toEqual(about(MINUTE_MS));
    expect(await left('a')).toEqual(about(10 * MINUTE_MS));
  });

  it('is found among that of many tenants', async () => {
    const { tell, left } = freshModel();
    for (let at = 0; at < 80; at++) await tell(`tenant-${at}`, newId(), MINUTE_MS);
    await tell('mine', newId(), 1_000);
    expect(await left('mine')).toEqual(about(MINUTE_MS));
    expect(await left('else')).toEqual(about(MINUTE_MS));
  });
});

it('is removed with what a later session is told, once it is over', async () => {
  const { tell, modelId } = freshModel();
  await tell('a', newId(), 0);
  await tell('b', newId(), 0);
  await tell('c', newId(), MINUTE_MS);
  const { rows } = await sql`select tenant_id from provider_pauses where model = ${modelId}`.execute(db);
  expect(rows).toEqual([{ tenant_id: 'c' }]);
});
