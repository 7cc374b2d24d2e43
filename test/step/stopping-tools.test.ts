import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const inputSchema = { type: 'object' } as const;

function callsOf(service: TestService) {
  return service.deps.db.selectFrom('parts').selectAll().where('type', '=', 'tool').orderBy('idx').execute();
}

/** Acts as a tool that honours its signal: it fails with the signal's reason. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Sends a message, waits until the tool runs, and shuts its worker down. */
async function shutDownUnder(service: TestService, began: () => boolean): Promise<string> {
  const session = await service.createSession();
  const worker = await service.startWorker();
  const { runId } = await service.send(session, 'Go');
  await eventually(async () => began(), 'the tool runs');
  await worker[Symbol.asyncDispose]();
  return runId;
}

describe.each(availableBackends())('a tool on %s', (backend) => {
  it('does not start once the cancel is committed, whoever was told of it', async () => {
    const ran: string[] = [];
    let runId = '';
    let service: TestService | undefined;
    const first: Tool = {
      name: 'first',
      description: 'cancels the run behind the worker’s back',
      inputSchema,
      readOnly: true,
      execute: async () => {
        if (service !== undefined) await requestCancel(service.deps.db, 'default', runId);
        return 'cancelled it';
      },
    };
    const second: Tool = { name: 'second', description: '', inputSchema, execute: async () => void ran.push('second') };
    service = await startTestService({ backend, tools: [first, second] });
    await using _ = service;
    const toolCalls = [
      { name: 'first', input: {} },
      { name: 'second', input: {} },
    ];
    service.simulator.script('test', [{ toolCalls }]);
    const session = await service.createSession({ limits: { toolConcurrency: 1 } });
    ({ runId } = await service.send(session, 'Go'));
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    expect(ran).toEqual([]);
  });

  it('that may be repeated is run again by the next worker when this one shuts down under it', async () => {
    const began: boolean[] = [];
    const tool: Tool = {
      name: 'repeatable',
      description: '',
      inputSchema,
      idempotent: true,
      execute: (_input, { signal }) => {
        began.push(true);
        if (began.length > 1) return Promise.resolve('the second time');
        return untilAborted(signal);
      },
    };
    await using service = await startTestService({
      backend,
      tools: [tool],
      environment: { BATON_SHUTDOWN_GRACE_MS: '0' },
    });
    service.simulator.script('test', [{ toolCalls: [{ name: 'repeatable', input: {} }] }, { text: 'Done.' }]);
    const runId = await shutDownUnder(service, () => began.length === 1);
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect((await callsOf(service))[0]).toMatchObject({
      state: 'completed',
      content: { output: { value: 'the second time' } },
    });
    expect(service.simulator.requests.length).toBe(2);
  });

  it('under a shutdown that Postgres does not hear of at once is handed back with its run all the same', async () => {
    let began = 0;
    const tool: Tool = {
      name: 'slow',
      description: '',
      inputSchema,
      execute: (_input, { signal }) => {
        began++;
        return untilAborted(signal);
      },
    };
    await using service = await startTestService({
      backend,
      tools: [tool],
      environment: { BATON_SHUTDOWN_GRACE_MS: '0' },
    });
    service.simulator.script('test', [{ toolCalls: [{ name: 'slow', input: {} }] }]);
    const { db } = service.deps;
    await sql`create sequence refusals`.execute(db);
    await sql`create function refuse_twice() returns trigger language plpgsql as $$ begin
      if nextval('refusals') <= 2 then raise 'terminating connection' using errcode = '57P01'; end if;
      return new;
    end $$`.execute(db);
    await sql`create trigger refuse_hand_back before update on runs for each row
      when (old.claim_id is not null and new.status = 'queued') execute function refuse_twice()`.execute(db);
    const runId = await shutDownUnder(service, () => began === 1);
    const run = await db
      .selectFrom('runs')
      .select(['status', 'claim_id', 'resume_count'])
      .where('id', '=', runId)
      .executeTakeFirst();
    expect(run).toEqual({ status: 'queued', claim_id: null, resume_count: 0 });
  });

  // Field bug: opencode#44254 ended the loop without a word over an interrupted tool.
  it('that must not be repeated is reported as of unknown outcome, not as failed by our shutdown', async () => {
    let began = 0;
    const tool: Tool = {
      name: 'once',
      description: '',
      inputSchema,
      execute: (_input, { signal }) => {
        began++;
        return untilAborted(signal);
      },
    };
    await using service = await startTestService({
      backend,
      tools: [tool],
      environment: { BATON_SHUTDOWN_GRACE_MS: '0' },
    });
    service.simulator.script('test', [{ toolCalls: [{ name: 'once', input: {} }] }, { text: 'Done.' }]);
    const runId = await shutDownUnder(service, () => began === 1);
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(began).toBe(1);
    expect(JSON.stringify((await callsOf(service))[0]?.content)).toContain('outcome of this call is unknown');
  });

  it('that finishes in spite of the shutdown ends its step there and then', async () => {
    let began = 0;
    const tool: Tool = {
      name: 'thorough',
      description: '',
      inputSchema,
      execute: (_input, { signal }) => {
        began++;
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve('finished first'), { once: true });
        });
      },
    };
    const environment = { BATON_SHUTDOWN_GRACE_MS: '0' };
    await using service = await startTestService({ backend, tools: [tool], environment });
    service.simulator.script('test', [{ toolCalls: [{ name: 'thorough', input: {} }] }, { text: 'Done.' }]);
    const runId = await shutDownUnder(service, () => began === 1);
    const run = await service.deps.db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
    expect(run).toMatchObject({ step_count: 1, pending_no: 2, claim_id: null });
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(began).toBe(1);
  });

  it('asks nobody for an approval because its worker shut down before it said whether it needs one', async () => {
    let asked = 0;
    const tool: Tool = {
      name: 'careful',
      description: '',
      inputSchema,
      needsApproval: () => {
        asked++;
        return asked > 1 ? Promise.resolve(false) : new Promise(() => undefined);
      },
      execute: async () => 'done without',
    };
    const environment = { BATON_SHUTDOWN_GRACE_MS: '0' };
    await using service = await startTestService({ backend, tools: [tool], environment });
    service.simulator.script('test', [{ toolCalls: [{ name: 'careful', input: {} }] }, { text: 'Done.' }]);
    const runId = await shutDownUnder(service, () => asked === 1);
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(asked).toBe(2);
    expect((await callsOf(service))[0]).toMatchObject({ state: 'completed' });
  });

  it('that the model calls with an invalid name has a result event like any other', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ toolCalls: [{ name: 'imaginary', input: {} }] }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    await service.ended((await service.send(session, 'Go')).runId);
    const types = (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).map(
      (event) => event.type,
    );
    expect(types.filter((type) => type.startsWith('llm:tool'))).toEqual(['llm:tool-call', 'llm:tool-result']);
    expect((await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 })).length).toBe(3);
  });
});
