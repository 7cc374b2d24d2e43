import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, inject, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { ROWS } from './catalogue.ts';
import { findLeftBehind } from './left-behind.ts';
import { tell, toJson } from './report.ts';
import { runRow } from './suite.ts';
import type { Services } from './world/services.ts';

// The short form of `npm run abuse`: a row runs through and is judged. Only the long form measures times.
const SCALE = { warmUpMs: 0, quietMs: 500, attackMs: 500, attackWithinMs: 60_000, settledWithinMs: 60_000 };
const signal = new AbortController().signal;

const services = (): Services => ({
  postgresUrl: inject('postgres').adminUrl,
  redisUrl: inject('redisUrl'),
  missing: new Map([['mount', 'this is a test']]),
  report: [],
  [Symbol.asyncDispose]: async () => undefined,
});

const rowNamed = (name: string) => {
  const row = ROWS.find((each) => each.name === name);
  if (row === undefined) throw new Error(`there is no row ${name}`);
  return row;
};

it('a row attacks, measures the other tenant, and is judged', { timeout: 120_000 }, async () => {
  const result = await runRow(rowNamed('wrong-keys'), services(), { seed: 7, scale: SCALE, signal });
  const evidence = result.last?.evidence;
  expect(evidence).toMatchObject({ ended: [], lost: [], stuck: [], breaches: [], failures: [], brokenOff: null });
  expect(evidence?.done['wrong keys answered 401']).toBeGreaterThan(0);
  for (const { quiet, meanwhile } of Object.values(evidence?.felt ?? {})) {
    expect([quiet.n, meanwhile.n].every((n) => n > 0)).toBe(true);
  }
  // A p99 needs more than one second of requests, and the row says so.
  expect(result.ok).toBe(false);
  expect(tell(result)).toMatch(/^BAD wrong-keys: [\s\S]*! only \d+ requests of the kind read were measured/);
  expect(JSON.parse(toJson(result))).toMatchObject({ row: 'wrong-keys', ok: false, lost: 0, ended: 0, tries: 1 });
});

it('a row that the machine cannot run is left out, and says why', async () => {
  const result = await runRow(rowNamed('full-disk'), services(), { seed: 7, scale: SCALE, signal });
  expect(result).toMatchObject({ ok: null, reasons: ['this is a test'] });
  expect(tell(result)).toBe('--  full-disk: left out, this is a test');
  expect(JSON.parse(toJson(result))).toEqual({ row: 'full-disk', ok: null, skipped: 'this is a test' });
});

it('an accepted session or message that is not in the database is lost', async () => {
  await using database = await createTestDatabase();
  const publicId = (kind: string): string => `${kind}_${newId().replaceAll('-', '')}`;
  const [session, messageId, runId] = [publicId('ses'), publicId('msg'), publicId('run')];
  const accepted = { sessions: [session], messages: [{ messageId, runId, token: crypto.randomUUID() }] };
  const left = await findLeftBehind(async () => database.connectionString, accepted, 0, signal);
  expect(left).toEqual({ lost: [expect.stringMatching(/^session /), `message ${messageId}`], stuck: [] });
});

it('a row that does not exist is refused with those that do', () => {
  const asked = spawnSync(process.execPath, [join(import.meta.dirname, 'run.ts'), '--only', 'no-such-row']);
  expect([asked.status, String(asked.stderr)]).toEqual([2, expect.stringContaining('inbox-flood')]);
});
