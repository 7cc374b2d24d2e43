import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { runNode } from '../deploy/process.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const stack = new AsyncDisposableStack();
let service: TestService;
let url: string;

beforeAll(async () => {
  service = stack.use(await startTestService({ backend: anyBackend(), environment: { BATON_PORT: '0' } }));
  url = stack.use(await startApi(service.deps)).url;
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

const baton = (...args: readonly string[]) =>
  runNode(['bin/baton.js', ...args], { cwd: ROOT, environment: { BATON_URL: url } }).ended;
const idIn = (text: string, prefix: string): string => new RegExp(`${prefix}_[0-9a-f]{32}`).exec(text)?.[0] ?? 'none';

describe('baton', () => {
  it('forks a session, reverts it and undoes that', async () => {
    service.simulator.script('test', [{ text: 'First answer.' }, { text: 'Second answer.' }]);
    const session = formatId('session', await service.createSession());
    for (const words of ['One', 'Two']) expect((await baton('send', session, words, '--follow')).code).toBe(0);
    const shown = JSON.parse((await baton('show', session, '--json')).output);
    const [, answer] = shown.messages;
    const forked = await baton('fork', session, '--at', answer.id, '--title', 'Another way');
    const fork = idIn(forked.output, 'ses');
    const copy = (await baton('show', fork)).output;
    expect(copy).toContain(`session    ${fork}  Another way`);
    expect(copy).toContain(`forked     from ${session} at ${answer.id}`);
    expect(copy).toContain('First answer.');
    expect(copy).not.toContain('Second answer.');
    expect((await baton('sessions')).output).toContain(`fork of ${session}`);
    expect(await baton('revert', session, answer.id)).toEqual({ code: 0, output: '2 messages taken out\n' });
    expect((await baton('show', session)).output).not.toContain('Second answer.');
    expect(await baton('unrevert', session)).toEqual({ code: 0, output: '2 messages brought back\n' });
    expect((await baton('show', session)).output).toContain('Second answer.');
    expect(await baton('unrevert', session)).toMatchObject({ code: 1, output: expect.stringContaining('conflict') });
    expect((await baton('revert', session)).code).toBe(2);
  });
});

describe('baton, at the edges', () => {
  it('submits by a key and with a schema, and prints the result as JSON', async () => {
    service.simulator.script('test', () => ({ text: '{"total":12}' }));
    await using folder = await temporaryFolder();
    const file = path.join(folder.path, 'schema.json');
    const schema = { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] };
    await writeFile(file, JSON.stringify(schema));
    const submit = (...more: readonly string[]) =>
      baton('submit', 'How much?', '--agent', 'tester', '--key', 'order-7', ...more);
    const first = JSON.parse((await submit('--schema', file, '--json')).output);
    const result = await baton('result', first.runId);
    expect(result).toMatchObject({ code: 0, output: '{"total":12}\n' });
    expect(JSON.parse((await submit('--json')).output).sessionId).toBe(first.sessionId);
    await writeFile(file, '{"type":"text"}');
    expect(await submit('--schema', file)).toMatchObject({ code: 1, output: expect.stringContaining('output.schema') });
  });

  it('creates webhooks, tests them and sends deliveries again', async () => {
    const hook = (...args: readonly string[]) =>
      runNode(['bin/baton.js', 'webhooks', ...args], {
        cwd: ROOT,
        environment: { BATON_URL: url, BATON_WEBHOOK_SECRET: 's'.repeat(32) },
      }).ended;
    expect((await baton('webhooks', 'create', 'https://hooks.example.com/')).output).toContain(
      'BATON_WEBHOOK_SECRET is not set',
    );
    expect(await hook('create', 'https://10.0.0.1/')).toMatchObject({
      code: 1,
      output: expect.stringContaining('no public address'),
    });
    const created = (await hook('create', 'https://hooks.example.com/', '--events', 'run:failed')).output;
    const id = idIn(created, 'whk');
    expect(created).toContain(`${id}  enabled  all agents  run:failed  https://hooks.example.com/`);
    expect((await hook('create', 'https://hooks.example.com/', '--events', 'run:maybe')).code).toBe(2);
    const delivery = idIn((await hook('test', id)).output, 'dlv');
    expect((await hook('deliveries', id)).output).toContain(delivery);
    expect((await hook('disable', id)).output).toContain('disabled (request)');
    expect(await hook('redeliver', delivery)).toMatchObject({ code: 1, output: expect.stringContaining('conflict') });
    expect((await hook('delete', id)).output).toBe(`${id} is deleted.\n`);
    expect((await hook()).output).toBe('There are no webhooks.\n');
  });

  it('creates schedules, shows when they fire, pauses them and fires one now', async () => {
    service.simulator.script('test', () => ({ text: 'The report.' }));
    const created = (await baton('schedules', 'create', 'tester', '0 9 * * *', 'Report', '--timezone', 'Europe/Berlin'))
      .output;
    const id = idIn(created, 'sch');
    expect(created).toMatch(/tester {2}0 9 \* \* \* Europe\/Berlin {2}Report/);
    expect((await baton('schedules', 'next', id)).output.trim().split('\n')).toHaveLength(10);
    expect((await baton('schedules', 'pause', id)).output).toContain('paused');
    expect((await baton('schedules', 'run', id)).output).toMatch(/^ses_\w+ {2}run_\w+\n$/);
    expect((await baton('schedules', 'fires', id)).output).toContain('fired');
    expect((await baton('schedules', 'resume', id)).output).toContain('next ');
    expect(await baton('schedules', 'create', 'tester', 'at nine', 'Report')).toMatchObject({
      code: 1,
      output: expect.stringContaining('cron'),
    });
    expect((await baton('schedules', 'delete', id)).output).toBe(`${id} is deleted.\n`);
  });
});
