import path from 'node:path';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import type { Reply } from '../../simulator/reply.ts';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { runNode } from '../deploy/process.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { createServerFiles } from '../tools/mcp-fixture.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const OLD = [
  { name: 'find', description: 'Finds.', annotations: { readOnlyHint: true } },
  { name: 'drop' },
  { name: 'announce' },
];
const NEW = [{ name: 'find', description: 'Finds more.' }, { name: 'added' }, { name: 'announce' }];

/** A service with a session whose MCP server can be changed while they work. */
async function startScene({ trust = false } = {}) {
  await using stack = new AsyncDisposableStack();
  const files = stack.use(createServerFiles(...OLD));
  const service = stack.use(await startTestService({ backend: 'postgres', environment: { BATON_PORT: '0' } }));
  const api = stack.use(await startApi(service.deps));
  const session = await service.createSession({
    mcpServers: { own: { ...files.config, args: [...files.config.args], timeoutMs: 60_000, trust } },
    tools: [{ mcp: 'own' }],
  });
  await service.startWorker();
  const owned = stack.move();
  /** One run, each of whose steps calls these tools. */
  const play = async (...steps: readonly (readonly string[])[]) => {
    const calls = steps.map(
      (names): Reply => ({
        toolCalls: names.map((name) => ({ name: `own__${name}`, input: {} })),
      }),
    );
    service.simulator.script('test', [...calls, { text: 'Done.' }]);
    const { runId } = await service.send(session, 'Go');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    return runId;
  };
  const told = async (type: string) =>
    (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 })).filter(
      (event) => event.type === type,
    );
  const repin = () => {
    const args = ['bin/baton.js', 'repin', formatId('session', session)];
    return runNode(args, { cwd: ROOT, environment: { BATON_URL: api.url } }).ended;
  };
  return { files, service, session, play, told, repin, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

it('a drift of its tools is told to a session once, until somebody accepts it and the next one comes', async () => {
  await using scene = await startScene();
  const { files, service, session, play, told, repin } = scene;
  await play(['announce', 'find']);
  expect(await told('tools:drifted')).toEqual([]);
  expect((await repin()).output).toBe('Nothing has changed.\n');

  files.offer(...NEW);
  // At once, in another step, in another run.
  const runId = await play(['announce'], ['find', 'find'], ['find', 'drop']);
  await play(['find', 'drop']);
  expect((await told('tools:drifted')).map(({ runId: of, data }) => [of, data])).toEqual([
    [runId, { server: 'own', tool: 'find', change: 'changed' }],
    [runId, { server: 'own', tool: 'drop', change: 'gone' }],
  ]);
  const logged = () => service.logged.flatMap((entry) => (entry.event === 'mcp_tool_drifted' ? [entry.change] : []));
  expect(logged()).toEqual(['changed', 'gone']);
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 });
  const calls = messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
  expect(new Set(calls.map(({ toolName, state }) => `${toolName} ${state}`))).toEqual(
    new Set(['own__announce completed', 'own__find completed', 'own__drop error']),
  );
  const offered = () =>
    service.simulator.requests
      .at(-1)
      ?.request?.tools.filter(({ name }) => name.startsWith('own__'))
      .map(({ name, description }) => [name, description]);
  expect(offered()).toContainEqual(['own__find', 'Finds.']);

  expect(await repin()).toMatchObject({
    code: 0,
    output: 'own        added added\nown        changed find\nown        removed drop\n',
  });
  expect((await told('tools:pinned')).map(({ data }) => data)).toEqual([
    { server: 'own', added: ['added'], changed: ['find'], removed: ['drop'] },
  ]);
  await play(['find', 'added']);
  expect(offered()).toEqual([
    ['own__find', 'Finds more.'],
    ['own__added', 'added'],
    ['own__announce', 'announce'],
  ]);
  expect(await told('tools:drifted')).toHaveLength(2);

  // The very definitions of the beginning: they are a drift of those that were accepted.
  files.offer(...OLD);
  await play(['announce'], ['find'], ['find']);
  expect((await told('tools:drifted')).map(({ data }) => data['change'])).toEqual(['changed', 'gone', 'changed']);
  expect(service.simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
});

it('a tool that has drifted is not called by a worker that has lost its run, even one that only reads', async () => {
  await using scene = await startScene({ trust: true });
  const { files, service, session, play } = scene;
  const { db } = service.deps;
  // As soon as the answer is committed that asks for the call, another worker has the run.
  await sql`create function take_over() returns trigger language plpgsql as $$ begin
    update runs set claim_id = gen_random_uuid() where claim_id is not null; return null; end $$`.execute(db);
  await sql`create constraint trigger take_over after insert on parts deferrable initially deferred
    for each row when (new.tool_name = 'own__find') execute function take_over()`.execute(db);
  files.offer({ name: 'find', description: 'Finds more.' }, { name: 'announce' });
  await play(['announce']);
  service.simulator.script('test', [{ toolCalls: [{ name: 'own__find', input: {} }] }]);
  await service.send(session, 'Go on');
  await eventually(async () => service.logged.some(({ event }) => event === 'step_fenced'), 'the worker is told');
  expect(files.ledger().map((line) => line.split(' ')[0])).toEqual(['announce']);
  expect(await scene.told('tools:drifted')).toEqual([]);
});
