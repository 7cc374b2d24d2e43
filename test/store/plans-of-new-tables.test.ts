import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { planNext } from '../../src/domain/run/next-step.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { type Db, openDatabase, openLentDatabase } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { claimRun, type Fence } from '../../src/store/work/claims.ts';
import { finishStep, writeResponse } from '../../src/store/work/step-writes.ts';
import { createTestDatabase, openProgramPool } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { countedAtOnce, watchAccess } from './plans-access.ts';
import { appendOne, moveOne } from './write-one.ts';

const OPENED = {
  "Baton's pool": async (connectionString: string) => openDatabase({ connectionString, maxConnections: 1 }),
  'the pool of a program': async (connectionString: string, stack: AsyncDisposableStack) => {
    const pool = stack.use(openProgramPool({ connectionString, max: 1 }));
    const onConnectionError = () => undefined;
    return openLentDatabase(pool, { connectionString, answerWithinMs: 30_000, onConnectionError });
  },
};

// Postgres keeps such plans while the tables grow, so a step that reads a whole table would cost more with each step.
it.each(Object.entries(OPENED))(
  'no step reads a whole table, not even one that Postgres knows to be empty: %s',
  async (_of, open) => {
    await using stack = new AsyncDisposableStack();
    const database = stack.use(await createTestDatabase({ isNew: true }));
    const db = await open(countedAtOnce(database.connectionString), stack);
    stack.defer(() => db.destroy());
    await sql`vacuum analyze`.execute(db);
    const { access } = await watchAccess(db, runOneStep);
    expect(access.scannedTables).toEqual([]);
    expect(Object.keys(access.indexes)).toEqual(
      expect.arrayContaining(['messages_id_session_id_key', 'parts_pkey', 'runs_pkey']),
    );
  },
);

async function runOneStep(db: Db): Promise<void> {
  const [sessionId, messageId, claimId] = [randomUUID(), randomUUID(), randomUUID()];
  const agent = { agentName: 'clerk', agentVersion: '1', agentSnapshot: {} };
  await insertSession(db, { id: sessionId, tenantId: 'default', title: null, metadata: {}, ...agent });
  const content = [{ type: 'text' as const, text: 'Go on.' }];
  const given = { tenantId: 'default', sessionId, messageId: randomUUID(), runId: randomUUID(), content };
  const { job } = await acceptMessage(db, given);
  if (job === null) throw new Error('the session is busy');
  const claimed = await claimRun(db, { job, claimId, workerId: 'worker', leaseDurationMs: 30_000, messageId });
  if (claimed.outcome !== 'claimed') throw new Error(claimed.outcome);
  const fence: Fence = { runId: job.runId, epoch: claimed.epoch, claimId };
  await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 0, type: 'text', text: 'Once' }]);
  const call = { type: 'tool', toolCallId: 'c1', toolName: 'grep', input: {}, state: 'pending' } as const;
  const parts = [{ type: 'text', text: 'Once' } as const, call];
  await writeResponse(db, fence, { messageId, parts, finishReason: 'tool-calls' }, []);
  await moveOne(db, fence, { messageId, index: 1, from: ['pending'], to: 'running', events: [] });
  const next = planNext({
    runId: job.runId,
    stepNo: 1,
    stepsBefore: 0,
    maxSteps: 50,
    finishReason: 'tool-calls',
    toolCalls: 1,
    result: { kind: 'answered' },
  });
  const ends = { moves: [], usage: NO_USAGE, costUsd: 0, nextRunId: randomUUID(), steps: 1, events: [], next } as const;
  if ((await finishStep(db, fence, ends)) === null) throw new Error('fenced');
}
