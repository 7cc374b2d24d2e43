import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { formatCallId, formatId, parseId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { toJson } from '../../src/store/db/json.ts';
import { startTestApi, type TestApi } from './test-api.ts';

async function startRun(api: TestApi, title: string): Promise<{ session: string; run: string }> {
  const session = await api.createSession({ title });
  const { body } = await api.send(session, 'hello');
  return { session: parseId('session', session) ?? '', run: parseId('run', String(body['runId'])) ?? '' };
}

type Begun = Readonly<{ session: string; run: string }>;

const messageId = newId();
let calls = 0;

/** A call of the run, as a worker asks for a child. Returns the id of the call. */
async function addChild(
  { db }: TestApi,
  parent: Begun,
  state: string,
  { child = { session: newId(), run: newId() }, result = null }: { child?: Begun; result?: object | null } = {},
): Promise<string> {
  calls += 1;
  await sql`
    insert into children (message_id, idx, parent_session_id, parent_run_id, tool_name, agent_name, mode, limits,
      max_parallel, session_id, run_id, state, result, ended_at)
    values (${messageId}, ${calls}, ${parent.session}, ${parent.run}, 'clerk', 'clerk', 'wait', '{}', 16, ${child.session},
      ${child.run}, ${state}, ${result === null ? null : toJson(result)}::jsonb,
      ${result === null ? null : new Date()})`.execute(db);
  await sql`update runs set children_count = children_count + 1 where id = ${parent.run}`.execute(db);
  return formatCallId(messageId, calls);
}

const read = async (api: TestApi, { run }: Begun) => (await api.call('GET', `/v1/runs/${formatId('run', run)}`)).body;

describe('a run that gave tasks to other agents', () => {
  test('tells what became of each, in the order of its calls; and each names the call that began it', async () => {
    await using api = await startTestApi();
    const parent = await startRun(api, 'parent');
    const child = await startRun(api, 'child');
    await sql`insert into messages (id, session_id, seq, role, run_id, step_no)
      values (${messageId}, ${parent.session}, 1000, 'assistant', ${parent.run}, 7)`.execute(api.db);
    const result = { status: 'completed', text: 'Found.', steps: 2, tokens: 30, costUsd: 0.5 };
    const refused = { status: 'refused', steps: 0, tokens: 0, costUsd: 0 };
    const calls = [
      await addChild(api, parent, 'delivered', { child, result }),
      await addChild(api, parent, 'delivered', { result: refused }),
      await addChild(api, parent, 'held'),
    ];
    const notThere = { sessionId: null, runId: null };
    expect(await read(api, parent)).toMatchObject({
      parent: null,
      childCount: 3,
      children: [
        {
          ...{
            callId: calls[0],
            agent: 'clerk',
            mode: 'wait',
            status: 'completed',
            steps: 2,
            tokens: 30,
            costUsd: 0.5,
          },
          ...{ sessionId: formatId('session', child.session), runId: formatId('run', child.run) },
          endedAt: expect.any(String),
        },
        { callId: calls[1], status: 'refused', ...notThere },
        { callId: calls[2], status: 'waiting', ...notThere, steps: null, tokens: null, costUsd: null, endedAt: null },
      ],
    });
    const of = {
      sessionId: formatId('session', parent.session),
      runId: formatId('run', parent.run),
      step: 7,
      callId: calls[0],
    };
    expect(await read(api, child)).toMatchObject({ parent: of, trigger: 'parent', childCount: 0, children: [] });
    const { body } = await api.call('GET', '/v1/runs');
    expect(body['runs']).toMatchObject([
      { parent: of, trigger: 'parent', childCount: 0 },
      { parent: null, trigger: 'message', childCount: 3 },
    ]);
    expect(JSON.stringify(body)).not.toContain('"children"');
  });

  test('tells of the last 100, and how many there are', async () => {
    await using api = await startTestApi();
    const parent = await startRun(api, 'parent');
    const calls: string[] = [];
    for (let no = 0; no < 102; no += 1) calls.push(await addChild(api, parent, 'held'));
    const { childCount, children } = await read(api, parent);
    expect(childCount).toBe(102);
    expect((children as { callId: string }[]).map(({ callId }) => callId)).toEqual(calls.slice(2));
  });
});
