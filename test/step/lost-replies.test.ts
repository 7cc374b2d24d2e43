import { describe, expect, it } from 'vitest';
import type { HeldClaim } from '../../src/claims/claim-keeper.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import type { Db } from '../../src/store/db/database.ts';
import type { TestService } from '../support/service.ts';
import { accept, losingReply, startService, takeStep, tool, withHeld } from './one-step.ts';

/** The job that a run needs next, by its row. No reconciler runs here that would add it. */
async function pendingJob({ deps: { db } }: TestService, { runId }: JobPayload): Promise<JobPayload> {
  const {
    pending_kind: kind,
    pending_no: no,
    pending_dispatch: dispatch,
  } = await db
    .selectFrom('runs')
    .select(['pending_kind', 'pending_no', 'pending_dispatch'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();
  if (kind === null) throw new Error('the run needs nothing');
  return { runId, kind, no, dispatch };
}

/** The reply to the first commit of a transaction is lost. */
function losingCommit(db: Db): Db {
  let isLost = false;
  const transaction = () => ({
    execute: async (work: Parameters<ReturnType<Db['transaction']>['execute']>[0]) => {
      const result = await db.transaction().execute(work);
      if (isLost) return result;
      isLost = true;
      throw new Error('Connection terminated unexpectedly');
    },
  });
  return new Proxy(db, {
    get(target, name) {
      const own: unknown = Reflect.get(target, name, target);
      if (name === 'transaction') return transaction;
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}

describe('a worker that lost the reply to its commit adds the job that follows', () => {
  it('after the end of a step that goes on through the queue', async () => {
    await using service = await startService(tool('look', async () => 'seen'));
    service.simulator.script('test', [{ toolCalls: [{ id: 'call', name: 'look', input: {} }] }]);
    const job = await accept(service, await service.createSession());
    await takeStep(service, job, ({ db }) => ({ db: losingReply(db, 'baton_finish_step') }));
    const next = await pendingJob(service, job);
    expect(next).toMatchObject({ kind: 'step', no: 2 });
    expect(await service.deps.jobs.stateOf(next)).toBe('waiting');
  });

  it('after a failure that is worth another attempt', async () => {
    await using service = await startService();
    service.simulator.script('test', [{ fault: { status: 503 } }]);
    const job = await accept(service, await service.createSession());
    await takeStep(service, job, ({ db }) => ({ db: losingReply(db, 'baton_finish_step') }));
    const next = await pendingJob(service, job);
    expect(next).toMatchObject({ kind: 'step', no: 1 });
    expect(await service.deps.jobs.stateOf(next)).toBe('delayed');
  });

  it('after it has handed its run back', async () => {
    await using service = await startService();
    const job = await accept(service, await service.createSession());
    const hooks: { held?: HeldClaim } = {};
    await takeStep(service, job, (own) => ({
      ...withHeld(own, hooks),
      db: losingCommit(own.db),
      toolsOf: async (agent) => {
        hooks.held?.stop('shutdown');
        return own.toolsOf(agent);
      },
    }));
    const next = await pendingJob(service, job);
    expect(next).toMatchObject({ kind: 'step', no: 1, dispatch: job.dispatch + 1 });
    expect(await service.deps.jobs.stateOf(next)).toBe('waiting');
  });
});
