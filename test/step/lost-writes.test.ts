import { describe, expect, it } from 'vitest';
import type { TestService } from '../support/service.ts';
import { accept, hearing, startService, statesOf, takeStep, tool } from './one-step.ts';

/** What a promoted standby may lack of a step whose claim it has. */
const LOST: Readonly<Record<string, (service: TestService) => Promise<unknown>>> = {
  'the answer with its calls': ({ deps: { db } }) => db.deleteFrom('parts').where('type', '=', 'tool').execute(),
  'that the answer is whole': ({ deps: { db } }) =>
    db
      .updateTable('messages')
      .set({ finish_reason: null, finished_at: null })
      .where('role', '=', 'assistant')
      .execute(),
  'the outcome of a call': ({ deps: { db } }) =>
    db.updateTable('parts').set({ state: 'running' }).where('tool_name', '=', 'first').execute(),
  'the start of a call': ({ deps: { db } }) =>
    db.updateTable('parts').set({ state: 'pending' }).where('tool_name', '=', 'second').execute(),
};

describe('a step does not end over writes that a failover has lost', () => {
  it.each(Object.entries(LOST))('%s', async (_, lose) => {
    let begin = (): void => undefined;
    const settled = new Promise<void>((resolve) => {
      begin = resolve;
    });
    // The outcome of the first call is committed by itself, that of the second one with the end of the step.
    const first = tool('first', async () => 'done');
    const second = tool('second', async () => {
      await settled;
      await lose(service);
      return 'done';
    });
    await using service = await startService(first, second);
    const toolCalls = [
      { id: 'one', name: 'first', input: {} },
      { id: 'two', name: 'second', input: {} },
    ];
    service.simulator.script('test', [{ toolCalls }]);
    const session = await service.createSession();
    const job = await accept(service, session);
    await takeStep(service, job, ({ db }) => ({ db: hearing(db, 'baton_move_calls', begin) }));
    const run = await service.deps.db.selectFrom('runs').selectAll().where('id', '=', job.runId).executeTakeFirst();
    expect(run).toMatchObject({ status: 'queued', claim_id: null, pending_no: 1, pending_dispatch: job.dispatch + 1 });
    expect(await statesOf(service, session)).not.toEqual(['completed', 'completed']);
    expect(await service.deps.jobs.stateOf({ ...job, dispatch: job.dispatch + 1 })).toBe('waiting');
  });
});
