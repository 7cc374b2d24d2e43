import { afterAll, beforeAll, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { StepResult } from '../../src/domain/run/next-step.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { endStep } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { openRace } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const error = { code: 'overloaded', message: 'Too much.' } as const;
const again = { delayMs: 60_000, attempt: 1 };

it.each<[string, StepResult, Readonly<{ attempt: number; next: string }>]>([
  [
    'that failed counts an attempt and goes before requested work',
    { kind: 'failed', error, retry: again },
    { attempt: 2, next: 'step' },
  ],
  [
    'that was put off counts none and lets requested work go first',
    { kind: 'postponed', postponement: { ...again, error } },
    { attempt: 1, next: 'compaction' },
  ],
])('a step %s; its event tells the time at which it is due', async (_what, result, { attempt, next }) => {
  const race = await openRace(database.db);
  const claimed = await race.begin();
  await requestMaintenance(race.db, { ...race.ref, kind: 'compaction', runId: newId() });
  const { fence, messageId } = claimed;
  const { jobs } = await endStep(race.db, claimed, { messageId, parts: [], superseded: true }, { result });
  expect(jobs).toMatchObject([{ runId: fence.runId, kind: next, no: 1 }]);
  const runs = race.db.selectFrom('runs').select(['attempt', 'pending_at']).where('id', '=', fence.runId);
  const run = await runs.executeTakeFirstOrThrow();
  expect(run.attempt).toBe(attempt);
  const told = (await readEvents(race.db, 'default', race.sessionId, { afterSeq: 0, limit: 100 })).at(-1);
  const data = { runId: formatId('run', fence.runId), step: 1, attempt: 1, error };
  expect(told).toMatchObject({ type: 'step:retrying' });
  expect(told?.data).toEqual({ ...data, nextAttemptAt: run.pending_at?.toISOString() });
});
