import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { MAX_RESUMES_PER_STEP } from '../../src/domain/tunables.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** A run whose step has been lost so often, and whose claim takes longer than any statement may. */
async function startSlowRun(service: TestService, resumeCount: number) {
  const { db } = service.deps;
  service.simulator.script('test', [{ text: 'Done.' }]);
  const session = await service.createSession();
  const { runId } = await service.send(session, 'Go');
  await sql`update runs set resume_count = ${resumeCount} where id = ${runId}`.execute(db);
  await sql`
    create function be_slow() returns trigger language plpgsql as $$
    begin
      perform pg_sleep(60);
      return new;
    end $$`.execute(db);
  await sql`create trigger be_slow before insert on messages for each row execute function be_slow()`.execute(db);
  await service.startWorker();
  return { session, runId };
}

it('a step whose claim takes Postgres too long, again and again, ends its run, and the session goes on', async () => {
  await using service = await startTestService({ backend: anyBackend() });
  const { db } = service.deps;
  const { session, runId } = await startSlowRun(service, MAX_RESUMES_PER_STEP - 1);
  const run = await service.ended(runId);
  expect(run.status).toBe('failed');
  expect(run.error).toEqual({
    code: 'resume_limit',
    message: `The step could not be begun: Postgres ended it ${MAX_RESUMES_PER_STEP} times (canceling statement due to statement timeout).`,
  });
  await sql`drop trigger be_slow on messages`.execute(db);
  const next = await service.send(session, 'Again');
  expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
});
