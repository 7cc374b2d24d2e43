import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { ScriptedToolCall } from '../../simulator/reply.ts';
import type { Agent } from '../../src/agents/agent.ts';
import { formatCallId, parseCallId } from '../../src/domain/ids.ts';
import { CANCELLED_BEFORE_START } from '../../src/domain/run/settlement.ts';
import { MAX_TOOL_OUTPUT_CHARS } from '../../src/domain/tunables.ts';
import { arrivingBytes } from '../../src/platform/arriving-bytes.ts';
import { newId } from '../../src/platform/new-id.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { ServerTool, Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

function tool(name: string, execute: ServerTool['execute'], traits: Partial<Tool> = {}): Tool {
  return { name, description: name, inputSchema: { type: 'object', additionalProperties: true }, execute, ...traits };
}

/** The output that the model reads of a call that may still go on. */
const OUTCOME_UNKNOWN = expect.stringMatching(/outcome.*unknown/);

const never = () => new Promise<never>(() => undefined);
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

const serviceWith = (...tools: readonly Tool[]) => startTestService({ backend: 'postgres', tools });

/** Sends one message whose answer asks for these calls; the second answer ends the run. */
async function start(service: TestService, toolCalls: readonly ScriptedToolCall[], agent: Partial<Agent> = {}) {
  service.simulator.script('test', [{ toolCalls }, { text: 'Done.' }]);
  await service.startWorker();
  const session = await service.createSession(agent);
  return { session, ...(await service.send(session, 'Go')) };
}

async function callsOf(service: TestService, session: string) {
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
}

/** Runs the calls until the run ends, and expects that the run completes in spite of them. */
async function ran(service: TestService, toolCalls: readonly ScriptedToolCall[], agent?: Partial<Agent>) {
  const { session, runId } = await start(service, toolCalls, agent);
  expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2, error: null });
  expect(service.simulator.requests.map(({ violations }) => violations)).toEqual([[], []]);
  return callsOf(service, session);
}

describe('a tool that takes too long', () => {
  it('gets its signal, and is given up when it ignores it; the model is told, and the run goes on', async () => {
    const reasons: unknown[] = [];
    const obedient = tool(
      'obedient',
      async (_input, { signal }) => {
        await aborted(signal);
        reasons.push(signal.reason);
        throw new Error('stopped');
      },
      { timeoutMs: 20 },
    );
    await using service = await serviceWith(obedient, tool('stubborn', never, { timeoutMs: 20 }));
    const calls = await ran(service, [
      { name: 'obedient', input: {} },
      { name: 'stubborn', input: {} },
    ]);
    expect(calls.map(({ state, output }) => [state, output])).toEqual([
      ['error', { type: 'error-text', value: 'obedient did not finish within its time.' }],
      ['error', { type: 'error-text', value: OUTCOME_UNKNOWN }],
    ]);
    expect(reasons).toMatchObject([{ name: 'TimeoutError' }]);
  });

  it('keeps the result that it has in the end, when that comes soon after its signal', async () => {
    const late = tool('late', async (_input, { signal }) => aborted(signal).then(() => 'all the same'), {
      timeoutMs: 20,
    });
    await using service = await serviceWith(late);
    const calls = await ran(service, [{ name: 'late', input: {} }]);
    expect(calls).toMatchObject([{ state: 'completed', output: { value: 'all the same' } }]);
  });

  it('keeps a cancel waiting no longer than its grace, and is named as still running', async () => {
    const begun = Promise.withResolvers<void>();
    const stubborn = tool('stubborn', () => {
      begun.resolve();
      return never();
    });
    await using service = await serviceWith(stubborn);
    const calls = [
      { name: 'stubborn', input: {} },
      { name: 'stubborn', input: {} },
    ];
    const { session, runId } = await start(service, calls, { limits: { toolConcurrency: 1 } });
    await begun.promise;
    await service.cancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    expect((await callsOf(service, session)).map(({ state, output }) => [state, output])).toEqual([
      ['error', { type: 'error-text', value: OUTCOME_UNKNOWN }],
      ['error', { type: 'error-text', value: CANCELLED_BEFORE_START }],
    ]);
    const cancelled = (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).find(
      ({ type }) => type === 'run:cancelled',
    );
    expect(cancelled?.data).toMatchObject({ stillRan: ['stubborn'] });
  });
});

describe('the calls of one response', () => {
  it('run side by side up to the agent’s limit', async () => {
    const full = Promise.withResolvers<void>();
    const seen: number[] = [];
    let active = 0;
    const busy = tool('busy', async () => {
      seen.push(++active);
      if (active === 2) full.resolve();
      await full.promise;
      active--;
      return 'ok';
    });
    await using service = await serviceWith(busy);
    const calls = Array.from({ length: 6 }, () => ({ name: 'busy', input: {} }));
    const settled = await ran(service, calls, { limits: { toolConcurrency: 2 } });
    expect(settled.map(({ state }) => state)).toEqual(calls.map(() => 'completed'));
    expect(Math.max(...seen)).toBe(2);
  });

  it('each get their own result and key when the provider gives all of them one id', async () => {
    const keys: string[] = [];
    const echo = tool('echo', async (input, { callKey }) => {
      keys.push(callKey);
      return input;
    });
    await using service = await startTestService({ backend: 'postgres', tools: [echo] });
    const calls = [1, 2, 3].map((n) => ({ id: 'call_same', name: 'echo', input: { n } }));
    const settled = await ran(service, calls);
    expect(settled.map(({ input, output }) => [input, output])).toEqual(
      [1, 2, 3].map((n) => [{ n }, { type: 'json', value: { n } }]),
    );
    expect(new Set(keys).size).toBe(3);
  });

  it('are told whose session they are of', async () => {
    const tenants: string[] = [];
    const tell = tool('tell', async (_input, { tenantId }) => void tenants.push(tenantId));
    await using service = await serviceWith(tell);
    await ran(service, [{ name: 'tell', input: {} }]);
    const { db } = service.deps;
    const session = await service.createSession();
    await db.updateTable('sessions').set({ tenant_id: 'acme' }).where('id', '=', session).execute();
    service.simulator.script('test', [{ toolCalls: [{ name: 'tell', input: {} }] }, { text: 'Done.' }]);
    const [messageId, runId] = [newId(), newId()];
    const message = { tenantId: 'acme', sessionId: session, messageId, runId };
    await acceptMessage(db, { ...message, content: [{ type: 'text', text: 'Go' }] });
    await eventually(async () => tenants.length === 2, 'the tool of the other tenant runs');
    expect(tenants).toEqual(['default', 'acme']);
  });

  it('commit the outcome that comes last with the end of the step, and no other later than it is known', async () => {
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<string>();
    const slow = tool('slow', () => {
      begun.resolve();
      return end.promise;
    });
    await using service = await serviceWith(
      tool('quick', async () => 'soon'),
      slow,
    );
    const calls = [
      { name: 'quick', input: {} },
      { name: 'slow', input: {} },
    ];
    const { session, runId } = await start(service, calls, { limits: { toolConcurrency: 1 } });
    await begun.promise;
    await eventually(
      async () => (await callsOf(service, session))[0]?.state === 'completed',
      'the first outcome is committed while the second call runs',
    );
    end.resolve('late');
    await service.ended(runId);
    const { rows } = await sql<{ type: string; writtenBy: string }>`
      select type, xmin::text as "writtenBy" from events where type in ('llm:tool-result', 'step:completed') order by seq
    `.execute(service.deps.db);
    const [quick, last, completed] = rows;
    expect(rows.map(({ type }) => type).slice(0, 3)).toEqual(['llm:tool-result', 'llm:tool-result', 'step:completed']);
    expect(last?.writtenBy).toBe(completed?.writtenBy);
    expect(quick?.writtenBy).not.toBe(completed?.writtenBy);
  });

  it('keep the outcome that came last where the step cannot be ended', async () => {
    await using service = await serviceWith(tool('quick', async () => 'kept'));
    const { db } = service.deps;
    await sql`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`.execute(
      db,
    );
    await sql`create trigger unended before update on runs for each row
      when (new.step_count > old.step_count) execute function refuse()`.execute(db);
    const { session } = await start(service, [{ name: 'quick', input: {} }]);
    const outcome = async () => (await callsOf(service, session)).map(({ state, output }) => [state, output]);
    await eventually(async () => (await outcome())[0]?.[0] === 'completed', 'the outcome is committed by itself');
    expect(await outcome()).toEqual([['completed', { type: 'text', value: 'kept' }]]);
  });

  it('go on to their end where the outcome before them cannot be committed, and keep their own', async () => {
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<string>();
    const second = tool('second', () => {
      begun.resolve();
      return end.promise;
    });
    await using service = await serviceWith(
      tool('first', async () => 'lost'),
      second,
    );
    const { db } = service.deps;
    // A sequence is not rolled back with its transaction, so it counts the refusals.
    await sql`create sequence refusals`.execute(db);
    await sql`create function refuse() returns trigger language plpgsql as $$ begin
      raise 'refused for the % time', nextval('refusals'); end $$`.execute(db);
    await sql`create trigger unfinished before update on parts for each row
      when (new.tool_name = 'first' and new.state = 'completed') execute function refuse()`.execute(db);
    const calls = [
      { name: 'first', input: {} },
      { name: 'second', input: {} },
    ];
    const { session, runId } = await start(service, calls, { limits: { toolConcurrency: 1 } });
    await begun.promise;
    const refused = async () =>
      (await sql<{ yes: boolean }>`select is_called as yes from refusals`.execute(db)).rows[0];
    await eventually(async () => (await refused())?.yes === true, 'the first outcome is refused');
    // Enough time for the job to fail if it did not wait for the second call.
    for (let n = 0; n < 5; n++) await callsOf(service, session);
    const failed = () => service.logged.some(({ event }) => event === 'job_failed');
    expect(failed()).toBe(false);
    end.resolve('kept');
    await eventually(async () => failed(), 'the job fails');
    expect((await callsOf(service, session)).map(({ state, output }) => [state, output])).toEqual([
      ['running', undefined],
      ['completed', { type: 'text', value: 'kept' }],
    ]);
    const run = await db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
    expect(run).toMatchObject({ status: 'running', step_count: 0 });
  });

  it('are marked as running before their effect, unless the tool only reads', async () => {
    const states = new Map<string, string | null | undefined>();
    const services: TestService[] = [];
    const look: Tool['execute'] = async (_input, { callKey }) => {
      const { messageId = '', index = -1 } = parseCallId(callKey) ?? {};
      const parts = services[0]?.deps.db.selectFrom('parts').select('state').where('message_id', '=', messageId);
      states.set(callKey, (await parts?.where('idx', '=', index).executeTakeFirst())?.state);
      return 'ok';
    };
    await using service = await serviceWith(tool('writer', look), tool('reader', look, { readOnly: true }));
    services.push(service);
    await ran(service, [
      { name: 'writer', input: {} },
      { name: 'reader', input: {} },
    ]);
    const rows = await service.deps.db
      .selectFrom('parts')
      .select(['tool_name', 'message_id', 'idx', 'state', 'started_at'])
      .where('type', '=', 'tool')
      .orderBy('idx')
      .execute();
    expect(
      rows.map((row) => [row.tool_name, states.get(formatCallId(row.message_id, row.idx)), row.started_at !== null]),
    ).toEqual([
      ['writer', 'running', true],
      ['reader', 'pending', true],
    ]);
    expect(rows.map(({ state }) => state)).toEqual(['completed', 'completed']);
  });
});

describe('what a tool gives back', () => {
  it('is cut to the limit with head and tail, whether it is text, JSON or an error', async () => {
    const huge = `HEAD${' some words'.repeat(MAX_TOOL_OUTPUT_CHARS / 5)}TAIL`;
    await using service = await serviceWith(
      tool('text', async () => huge),
      tool('json', async () => ({ huge })),
      tool('error', () => Promise.reject(new Error(huge))),
    );
    const calls = ['text', 'json', 'error'].map((name) => ({ name, input: {} }));
    const outputs = (await ran(service, calls)).map(({ output }) => output);
    expect(outputs.map((output) => output?.type)).toEqual(['text', 'text', 'error-text']);
    for (const output of outputs) {
      const value = output?.type === 'text' || output?.type === 'error-text' ? output.value : '';
      expect(value.length).toBeLessThanOrEqual(MAX_TOOL_OUTPUT_CHARS);
      expect(value).toMatch(/^(\{"huge":")?HEAD[ \w]+\n… \[\d+ of \d+ characters cut out: .*\] …\n[ \w]+TAIL("\})?$/);
    }
  });

  it('is stored even when it holds what Postgres refuses', async () => {
    await using service = await serviceWith(
      tool('text', async () => 'a\u0000b\uD83Dc'),
      tool('json', async () => ({ 'k\u0000': ['\uDE00', { deep: '\u0000' }] })),
      tool('error', () => Promise.reject(new Error('no\u0000luck\uD83D'))),
    );
    const calls = ['text', 'json', 'error'].map((name) => ({ name, input: {} }));
    expect((await ran(service, calls)).map(({ output }) => output)).toEqual([
      { type: 'text', value: 'a\uFFFDb\uFFFDc' },
      { type: 'json', value: { 'k\uFFFD': ['\uFFFD', { deep: '\uFFFD' }] } },
      { type: 'error-text', value: 'no\uFFFDluck\uFFFD' },
    ]);
  });

  it('never takes the step down: nothing, a bigint, a circle, or a throw that is no error', async () => {
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    await using service = await serviceWith(
      tool('nothing', async () => undefined),
      tool('bigint', async () => ({ rows: 3n })),
      tool('circle', async () => circular),
      tool('bare', () => Promise.reject(Object.create(null))),
      tool('sync', () => {
        throw new Error('before any promise');
      }),
    );
    const calls = ['nothing', 'bigint', 'circle', 'bare', 'sync'].map((name) => ({ name, input: {} }));
    expect((await ran(service, calls)).map(({ state, output }) => [state, output])).toEqual([
      ['completed', { type: 'json', value: null }],
      ['completed', { type: 'json', value: { rows: '3' } }],
      ['error', { type: 'error-text', value: expect.stringContaining('circular') }],
      ['error', { type: 'error-text', value: '{}' }],
      ['error', { type: 'error-text', value: 'before any promise' }],
    ]);
  });
});

it('a call has the room of its result until that is stored', async () => {
  const held: number[] = [];
  const large = tool('large', async (_input, { takeRoom, signal }) => {
    await takeRoom?.(100_000, 1_000_000, signal);
    held.push(arrivingBytes.heldBytes());
    return 'x'.repeat(100_000);
  });
  await using service = await serviceWith(large);
  await ran(service, [{ name: 'large', input: {} }]);
  expect(held).toEqual([1_000_000]);
  expect(arrivingBytes.heldBytes()).toBe(0);
});
