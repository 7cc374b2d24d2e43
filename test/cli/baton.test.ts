import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { indexWords } from '../../src/store/around/message-words.ts';
import { runNode } from '../deploy/process.ts';
import { call, createWaitingTools } from '../flow/waiting-scenario.ts';
import { anyBackend } from '../support/backends.ts';
import { createTestKey } from '../support/keys.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { runHere } from './support/run-here.ts';

const backend = anyBackend();
const ROOT = path.join(import.meta.dirname, '../..');

const stack = new AsyncDisposableStack();
let service: TestService;
let url: string;

beforeAll(async () => {
  const options = { backend, tools: createWaitingTools().tools, environment: { BATON_PORT: '0' } };
  service = stack.use(await startTestService(options));
  url = stack.use(await startApi(service.deps)).url;
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

const baton = (args: readonly string[], environment: Readonly<Record<string, string>> = {}) =>
  runNode(['bin/baton.js', ...args], { cwd: ROOT, environment: { BATON_URL: url, ...environment } }).ended;

/** The words of one line of the output, in order. */
const inOrder = (...texts: readonly string[]) =>
  new RegExp(texts.map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^]*'));

describe('baton, of a service that runs', () => {
  it('submits a task and shows its run to the end: step, tools, text, context meter', async () => {
    service.simulator.script('test', [
      { text: 'I will look.', toolCalls: [call('look', { at: 'it' })] },
      { text: 'It is there.' },
    ]);
    const session = formatId('session', await service.createSession());
    const { code, output } = await baton(['send', session, 'Look at it', '--follow']);
    expect(output).toMatch(
      inOrder(
        `session    ${session}`,
        'run_',
        'Step 1',
        'I will look.',
        '→ look at: it',
        '← look look did it',
        'context ░',
        ' of 168,000 tokens (0 %)',
      ),
    );
    expect(output).toMatch(inOrder('Step 2', 'It is there.', '✓ completed after 2 steps', 'tokens in'));
    expect(code).toBe(0);
    const shown = await baton(['show', session]);
    expect(shown.output).toMatch(
      inOrder('status     idle', '#1 user', 'Look at it', '→ look', 'completed', 'It is there.'),
    );
    const listed = await baton(['sessions', '--json']);
    expect(JSON.parse(listed.output)).toMatchObject({ sessions: [{ id: session, status: 'idle' }] });
    while (((await indexWords(service.deps.db)) ?? 1) > 0);
    const found = await baton(['sessions', '--search', 'there']);
    expect(found.output).toMatch(inOrder(session, 'assistant: … It is there. …'));
  });

  it('shows the files and sources of an answer', async () => {
    const sources = [{ title: 'The harbor', url: 'https://example.com/harbor' }];
    service.simulator.script('test', [{ text: 'Here it is.', pictures: [PNG_BASE64], sources }]);
    const session = formatId('session', await service.createSession());
    const sent = await baton(['send', session, 'Paint the harbor', '--follow']);
    const file = /file image\/png (blob_[0-9a-f]{32})\n/.exec(sent.output)?.[1] ?? 'none';
    const source = 'source The harbor https://example.com/harbor';
    expect(sent.output).toMatch(inOrder('Here it is.', `file image/png ${file}`, source, '✓ completed after 1 step'));
    const shown = await baton(['show', session]);
    expect(shown.output).toMatch(inOrder('Paint the harbor', 'Here it is.', `  file image/png ${file}`, `  ${source}`));
    const runId = /run_[0-9a-f]{32}/.exec(sent.output)?.[0] ?? 'none';
    expect(await baton(['result', runId])).toEqual({ code: 0, output: `Here it is.\nfile image/png ${file}\n` });
    const { output } = await baton(['result', runId, '--json']);
    expect(JSON.parse(output)).toMatchObject({ id: runId, output: { text: 'Here it is.' } });
  });

  it('says that a message waits, lets it be changed and removed, and cancels the run', async () => {
    service.simulator.script('test', [{ text: 'Long.', gates: { beforeFirstChunk: 'held' } }]);
    const submitted = await baton(['submit', 'Go', '--agent', 'tester', '--title', 'From a test', '--json']);
    const { sessionId, runId } = JSON.parse(submitted.output);
    await service.simulator.gate('held').reached;
    const sent = await baton(['send', sessionId, 'And this', '--delivery', 'followup']);
    expect(sent.output).toMatch(inOrder('queued     at position 1: message msg_'));
    const [messageId = ''] = /msg_[0-9a-f]{32}/.exec(sent.output) ?? [];
    const edited = await baton(['queue', sessionId, 'edit', messageId, 'Rather that']);
    expect(edited.output).toMatch(inOrder('queue 1', messageId, 'followup', 'Rather that'));
    expect((await baton(['queue', sessionId, 'remove', messageId])).output).toBe('Nothing waits.\n');
    expect(await baton(['cancel', sessionId])).toEqual({ code: 0, output: `${runId} is cancelled.\n` });
    service.simulator.gate('held').release();
    expect((await baton(['cancel', sessionId])).output).toBe('Nothing was active.\n');
    const shown = await baton(['show', runId, '--follow', '--json']);
    expect(shown.code).toBe(1);
    expect(JSON.parse(shown.output.trim().split('\n').at(-1) ?? '')).toMatchObject({
      type: 'run',
      data: { id: runId, status: 'cancelled' },
    });
  });

  it('ends with 4 when a run waits for an answer, and says how to give it', async () => {
    service.simulator.script('test', [{ toolCalls: [call('deploy', { to: 'production' })] }, { text: 'Deployed.' }]);
    const session = formatId('session', await service.createSession());
    const asked = await baton(['send', session, 'Deploy', '--follow']);
    expect(asked.code).toBe(4);
    const [, runId = '', callId = ''] = /baton -- answer (run_\w+) (call_\w+) approve/.exec(asked.output) ?? [];
    expect((await baton(['show', runId, '--follow'])).code).toBe(4);
    const answered = await baton(['answer', runId, callId, 'approve', '--args', '{"to":"staging"}', '--follow']);
    expect(answered.output).toMatch(inOrder('The run goes on.', 'Deployed.', '✓ completed'));
    expect(answered.code).toBe(0);
    const given = await service.deps.db.selectFrom('parts').select('answer').where('answer', 'is not', null).execute();
    expect(given.at(-1)?.answer).toMatchObject({ given: { args: { to: 'staging' } } });
    const again = await baton(['answer', runId, callId, 'deny', '--reason', 'Too late']);
    expect(again).toMatchObject({ code: 1, output: expect.stringContaining('already_answered') });
  });

  it('ends with 4 likewise where another call is open, and where a message waits behind it', async () => {
    const calls = [call('deploy', { to: 'one' }), call('deploy', { to: 'two' })];
    service.simulator.script('test', [{ toolCalls: calls }, { text: 'Deployed.' }, { text: 'And more.' }]);
    const session = formatId('session', await service.createSession());
    const asked = await baton(['send', session, 'Deploy', '--follow']);
    const found = [...asked.output.matchAll(/baton -- answer (run_\w+) (call_\w+) approve/g)];
    const [[, runId = '', first = ''] = [], [, , second = ''] = []] = found;
    const how = `npm run -s baton -- answer ${runId} ${second} approve`;
    const half = await baton(['answer', runId, first, 'approve', '--follow']);
    expect(half).toMatchObject({ code: 4, output: expect.stringContaining(how) });
    const behind = await baton(['send', session, 'And then?', '--delivery', 'followup', '--follow']);
    expect(behind).toMatchObject({ code: 4, output: expect.stringContaining(how) });
    const rest = await baton(['answer', runId, second, 'approve', '--follow']);
    expect(rest).toMatchObject({ code: 0, output: expect.stringContaining('Deployed.') });
  });

  it('ends the watching, not the run, when it is told to end', async () => {
    service.simulator.script('test', [{ text: 'Slow.', gates: { beforeFirstChunk: 'watched' } }]);
    const session = formatId('session', await service.createSession());
    const args = ['bin/baton.js', 'send', session, 'Go', '--follow', '--json'];
    await using watching = runNode(args, { cwd: ROOT, environment: { BATON_URL: url } });
    await service.simulator.gate('watched').reached;
    // Before its first output the command may not listen for the signal yet.
    await watching.printed('"type":"');
    const { code, output } = await watching.stop();
    expect(code).toBe(143);
    const [, runId = ''] = /The run goes on: baton show (run_\w+) --follow/.exec(output) ?? [];
    service.simulator.gate('watched').release();
    const shown = await baton(['show', runId, '--follow', '--json']);
    expect(JSON.parse(shown.output.trim().split('\n').at(-1) ?? '')).toMatchObject({ data: { status: 'completed' } });
  });

  it('follows a session over its runs, and resumes it', async () => {
    const held = { text: 'Held.', gates: { beforeFirstChunk: 'resumed' } };
    service.simulator.script('test', [{ text: 'First.' }, held]);
    const session = formatId('session', await service.createSession());
    const follow = (...options: string[]) =>
      runNode(['bin/baton.js', 'show', session, '--follow', ...options], {
        cwd: ROOT,
        environment: { BATON_URL: url },
      });
    await using watching = follow();
    await using reading = follow('--json');
    await Promise.all([reading.printed('session:snapshot'), watching.printed('the session is idle')]);
    expect((await baton(['send', session, 'Go', '--follow'])).code).toBe(0);
    await baton(['send', session, 'More']);
    await service.simulator.gate('resumed').reached;
    expect((await baton(['cancel', session])).output).toMatch(/is cancelled/);
    service.simulator.gate('resumed').release();
    const resumed = await baton(['resume', session, '--follow']);
    expect(resumed).toMatchObject({
      code: 0,
      output: expect.stringMatching(inOrder('run        run_', 'Held.', '✓ completed')),
    });
    await watching.printed('Held.');
    await watching.printed('✓ completed after 1 step', 2);
    const shown = await watching.stop();
    expect(shown.code).toBe(143);
    expect(shown.output).toMatch(inOrder('First.', '✓ completed', '✗ cancelled', 'Held.', '✓ completed'));
    const events = (await reading.stop()).output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const ends = events.filter(({ type }) => /^run:(completed|cancelled)$/.test(type)).map(({ type }) => type);
    expect(ends).toEqual(['run:completed', 'run:cancelled', 'run:completed']);
  });

  it('lists the agents, and takes the only one where none is named', async () => {
    expect((await baton(['agents'])).output).toMatch(/^tester +simulated\/test\n$/);
    service.simulator.script('test', [{ text: 'By the only one.' }]);
    expect(await baton(['submit', 'Go', '--follow'])).toMatchObject({
      code: 0,
      output: expect.stringContaining('By the only'),
    });
    const two = ['one', 'two'].map((name) => agentSchema.parse({ name, model: 'simulated/test' }));
    await using other = await startApi({ ...service.deps, agents: createCatalogue(two) });
    const unnamed = await baton(['submit', 'Go', '--url', other.url]);
    expect(unnamed).toMatchObject({ code: 2, output: expect.stringContaining('--agent is missing: one of one, two.') });
    const listed = await baton(['agents', '--json', '--url', other.url]);
    expect(JSON.parse(listed.output).agents).toMatchObject([{ name: 'one' }, { name: 'two' }]);
  });

  it('runs the API and a worker for the same service', async () => {
    const environment = { ...service.environment, BATON_MODEL: 'simulated/workspace' };
    service.simulator.script('workspace', [{ text: 'Hello.' }]);
    await using api = runNode(['bin/baton.js', 'api'], { cwd: ROOT, environment });
    await using worker = runNode(['bin/baton.js', 'worker', 'steps'], { cwd: ROOT, environment });
    const { url: ownUrl } = await api.logged('process_started');
    expect(await worker.logged('process_started')).toMatchObject({ role: 'steps' });
    const submitted = await baton(['submit', 'Hello?', '--follow', '--url', String(ownUrl)]);
    expect(submitted).toMatchObject({ code: 0, output: expect.stringContaining('Hello.') });
    expect(await api.stop()).toMatchObject({ code: 0 });
    expect(await worker.stop()).toMatchObject({ code: 0 });
  });

  it('says why nothing comes of a run that no worker takes, and that one does again', async () => {
    await using idle = await startTestService({ backend, environment: { BATON_PORT: '0' } });
    await using api = await startApi(idle.deps);
    expect(await (await fetch(`${api.url}/readyz`)).json()).toMatchObject({
      ready: true,
      unattended: ['step', 'compaction', 'prune', 'delivery'],
    });
    idle.simulator.script('test', [{ text: 'Late.', gates: { beforeFirstChunk: 'told' } }]);
    const session = formatId('session', await idle.createSession({ tools: [] }));
    await using sent = runNode(['bin/baton.js', 'send', session, 'Go', '--follow', '--url', api.url], { cwd: ROOT });
    await sent.printed('no worker takes steps at the moment: runs wait until one is started (baton worker steps)');
    await idle.startWorker();
    await sent.printed('a worker takes steps again');
    idle.simulator.gate('told').release();
    expect(await sent.ended).toMatchObject({ code: 0, output: expect.stringContaining('✓ completed') });
    expect(await (await fetch(`${api.url}/readyz`)).json()).toMatchObject({ ready: true, unattended: [] });
  });

  it.each([
    [[], 0, /Talk to a service/],
    [['destroy'], 2, /There is no command destroy/],
  ])('%j ends with %i', async (args, expected, text) => {
    const { code, output } = await baton(args);
    expect(output).toMatch(text);
    expect(code).toBe(expected);
  });

  it.each([
    [['submit', 'two', 'words'], 2, /words is too much/],
    [['sessions', '--all'], 2, /--all/],
    [['send', 'ses_1', 'x', '--delivery', 'soon'], 2, /--delivery is one of steer/],
    [['submit', 'x', '--agent', 'nobody'], 1, /agent_not_found/],
  ])('%j is refused with %i', async (args, expected, text) => {
    const { code, output } = await runHere(args, { BATON_URL: url });
    expect(output).toMatch(text);
    expect(code).toBe(expected);
  });

  it('ends with 3 where nobody answers', async () => {
    const { code, output } = await baton(['cancel', 'ses_1', '--url', 'http://127.0.0.1:9']);
    expect([code, output]).toEqual([3, expect.stringContaining('unreachable: no answer from 127.0.0.1:9')]);
  });

  it('shows its key', async () => {
    const { secret } = await createTestKey(service.deps.db);
    expect(await baton(['sessions'])).toMatchObject({ code: 1, output: expect.stringContaining('unauthenticated') });
    expect((await baton(['sessions', '--limit', '1'], { BATON_API_KEY: secret })).code).toBe(0);
  });
});

/** A Node of this machine that cannot run TypeScript; null: none. */
function findOlderNode(): string | null {
  const places = (process.env['PATH'] ?? '').split(path.delimiter).map((folder) => path.join(folder, 'node'));
  const versionOf = (node: string): number => {
    try {
      return Number.parseInt(execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }), 10);
    } catch {
      return Number.POSITIVE_INFINITY;
    }
  };
  return places.find((node) => versionOf(node) < 24) ?? null;
}

it('started by an older Node takes the one that npm has brought along', () => {
  const node = findOlderNode();
  if (node === null)
    return void process.stdout.write('tests: baton is not started by an older Node (there is none here)\n');
  const options = { encoding: 'utf8', cwd: ROOT, stdio: 'pipe' } as const;
  expect(execFileSync(node, ['bin/baton.js', 'worker', '--help'], options)).toContain('baton -- worker');
  expect(() => execFileSync(node, ['bin/baton.js', 'worker', 'bees'], options)).toThrow('not a kind of worker');
});
