import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createMcpServers } from '../../src/tools/mcp/mcp-servers.ts';
import { startServerProcess } from '../../src/tools/mcp/supervised-server.ts';
import { eventually } from '../support/eventually.ts';
import { startSilentServer } from '../support/silent-server.ts';
import { createMcpFixture, createServerFiles } from './mcp-fixture.ts';
import { isRunning } from './workspace-fixture.ts';

const IDEMPOTENT = { annotations: { idempotentHint: true } };

const isCalled = (files: { ledger: () => string[] }, times = 1) =>
  eventually(async () => files.ledger().length >= times, `the server is called ${times} times`);

describe('a session', () => {
  it('keeps to the definitions that it began with; a new one gets those of now', async () => {
    using files = createServerFiles({ name: 'find', description: 'Finds.' }, { name: 'announce' });
    await using fixture = createMcpFixture({ own: files.config });
    const first = await fixture.pin([{ mcp: 'own' }]);
    files.offer({ name: 'find', description: 'Finds and deletes.' }, { name: 'added' }, { name: 'announce' });
    await fixture.call(first, 'own__announce');
    expect(await fixture.toolsOf(first)).toMatchObject([{ name: 'own__find', description: 'Finds.' }, {}]);
    const second = await fixture.pin([{ mcp: 'own' }]);
    expect((await fixture.toolsOf(second)).map(({ description }) => description)).toEqual([
      'Finds and deletes.',
      'added',
      'announce',
    ]);
    expect(second.pinnedTools?.['own']?.hash).not.toBe(first.pinnedTools?.['own']?.hash);
    expect(files.pids().length, 'one process serves both').toBe(1);
  });

  it('calls a tool that has changed, and that is reported; one that is gone is refused, until it is back', async () => {
    using files = createServerFiles({ name: 'find', description: 'Finds.' }, { name: 'announce' });
    await using fixture = createMcpFixture({ own: files.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const drifts = () => fixture.drifts.map(({ change }) => change);
    await fixture.call(agent, 'own__find');
    expect(drifts()).toEqual([]);
    files.offer({ name: 'find', description: 'Other.' }, { name: 'announce' });
    await fixture.call(agent, 'own__announce');
    expect(await fixture.call(agent, 'own__find', { q: 1 })).toBe('find {"q":1}');
    expect(drifts()).toEqual(['changed']);
    files.offer({ name: 'announce' });
    await fixture.call(agent, 'own__announce');
    await expect(fixture.call(agent, 'own__find')).rejects.toThrow('does not offer the tool find any more');
    expect(drifts()).toEqual(['changed', 'gone']);
    const pinnedHash = agent.pinnedTools?.['own']?.hash;
    expect(fixture.drifts.at(-1)).toEqual({
      server: 'own',
      tool: 'find',
      change: 'gone',
      pinnedHash,
      offeredHash: null,
    });
    files.offer({ name: 'find', description: 'Finds.' }, { name: 'announce' });
    expect(await fixture.call(agent, 'own__find')).toBe('find {}');
  });

  it('without definitions is refused, and so is a server that nobody configured', async () => {
    await using fixture = createMcpFixture({ docs: { command: 'false' } });
    const agent = await fixture.pin([]);
    await expect(fixture.toolsOf({ ...agent, tools: ['x', { mcp: 'docs' }] })).rejects.toThrow('tools.0: ');
    await expect(fixture.toolsOf({ ...agent, tools: [{ mcp: 'docs' }] })).rejects.toThrow(
      'tools.0.mcp: the session has no definitions of the tools of docs',
    );
    await expect(fixture.pin([{ mcp: 'dosc' }])).rejects.toThrow('there is no MCP server named dosc; known: docs');
  });
});

describe('a connection that no agent names any more', () => {
  it('is closed once nobody uses it, and made anew for a session that does; the others stay', async () => {
    using named = createServerFiles({ name: 'find' });
    using unused = createServerFiles({ name: 'find' });
    using working = createServerFiles({ name: 'hang' });
    const configs = { named: named.config, unused: unused.config, working: working.config };
    await using fixture = createMcpFixture(configs, process.env, { unusedAfterMs: 20 });
    const agent = await fixture.pin([{ mcp: 'named' }, { mcp: 'unused' }, { mcp: 'working' }]);
    const stop = new AbortController();
    const hanging = fixture.call(agent, 'working__hang', {}, stop.signal).catch(() => 'stopped');
    await isCalled(working);
    for (const name of ['named__find', 'unused__find']) await fixture.call(agent, name);
    const now = agentSchema.parse({ name: 'now', model: 'simulated/test', tools: [{ mcp: 'named' }] });
    using _closing = fixture.servers.closeUnused(createCatalogue([now]));
    const isGone = (pid = 0) => eventually(async () => !isRunning(pid), 'the unused server ends');
    await isGone(unused.pids()[0]);
    expect([named.pids().map(isRunning), working.pids().map(isRunning)]).toEqual([[true], [true]]);
    expect(await fixture.call(agent, 'unused__find')).toBe('find {}');
    // On a slow machine it may be unused for 20 ms before it is called, and is then started once more.
    expect(unused.pids().length).toBeGreaterThan(1);
    await isGone(unused.pids().at(-1));
    stop.abort();
    expect(await hanging).toBe('stopped');
    await isGone(working.pids()[0]);
    expect(named.pids().map(isRunning)).toEqual([true]);
    const closed = fixture.logged.flatMap((entry) => (entry.event === 'mcp_server_unused' ? [entry.server] : []));
    expect(closed.toSorted()).toEqual([...unused.pids().map(() => 'unused'), 'working']);
    expect(fixture.logged.filter(({ event }) => event === 'mcp_server_failed')).toEqual([]);
  });
});

describe('a server that ends in mid-call', () => {
  it('leaves a call of unknown outcome, and is started again for the next one', async () => {
    using files = createServerFiles({ name: 'hang', ...IDEMPOTENT }, { name: 'find' });
    await using fixture = createMcpFixture({ own: files.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const running = fixture.call(agent, 'own__hang');
    const failed = expect(running).rejects.toThrow(
      /connection to the MCP server own was lost\. The outcome .* unknown/,
    );
    await isCalled(files);
    process.kill(files.pids()[0] ?? 0, 'SIGKILL');
    await failed;
    expect(await fixture.call(agent, 'own__find')).toBe('find {}');
    expect(files.pids().length).toBe(2);
    expect(files.ledger()).toEqual(['hang msg_1:0 of acme', 'find msg_1:0 of acme']);
    const failure = fixture.logged.find(({ event }) => event === 'mcp_server_failed');
    expect(failure).toMatchObject({ retryInMs: expect.toBeOneOf(upTo(250)) });
  });

  it('gets the call again, with the same key, where it is trusted that this does no harm', async () => {
    using files = createServerFiles({ name: 'hang', ...IDEMPOTENT });
    await using fixture = createMcpFixture({ own: { ...files.config, trust: true } });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const running = fixture.call(agent, 'own__hang');
    const failed = expect(running).rejects.toThrow(/outcome .* unknown/);
    await isCalled(files);
    process.kill(files.pids()[0] ?? 0, 'SIGKILL');
    await isCalled(files, 2);
    process.kill(files.pids()[1] ?? 0, 'SIGKILL');
    await failed;
    expect(files.ledger()).toEqual(['hang msg_1:0 of acme', 'hang msg_1:0 of acme']);
  });
});

describe('a call', () => {
  it('that is answered with an image that is none has its outcome: the model is told what of it is no image', async () => {
    const broken = { type: 'image', mimeType: 'image/png', data: 'no base64!' };
    using files = createServerFiles(
      { name: 'shoot', answer: { content: [{ type: 'text', text: 'The page:' }, broken] } },
      { name: 'babble', answer: { content: 'words' } },
    );
    await using fixture = createMcpFixture({ own: files.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    expect(await fixture.call(agent, 'own__shoot')).toBe(
      'The page:\n[malformed image/png, not shown: data: Invalid Base64 string]',
    );
    expect(await fixture.call(agent, 'own__babble')).toBe('words');
    expect(files.pids(), 'the connection stands').toHaveLength(1);
  });

  it('that is stopped is cancelled at the server as well', async () => {
    using files = createServerFiles({ name: 'hang' });
    await using fixture = createMcpFixture({ own: files.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const stop = new AbortController();
    const stopped = expect(fixture.call(agent, 'own__hang', {}, stop.signal)).rejects.toThrow('was told to stop');
    await isCalled(files);
    stop.abort(new Error('cancelled'));
    await stopped;
    await isCalled(files, 2);
    expect(files.ledger()).toEqual(['hang msg_1:0 of acme', 'cancelled']);
  });

  it('that is done is not cancelled when its signal comes late', async () => {
    using files = createServerFiles({ name: 'find' });
    await using fixture = createMcpFixture({ own: files.config });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    const late = new AbortController();
    await fixture.call(agent, 'own__find', {}, late.signal);
    late.abort();
    await fixture.call(agent, 'own__find');
    await fixture[Symbol.asyncDispose]();
    expect(files.ledger()).toEqual(['find msg_1:0 of acme', 'find msg_1:0 of acme']);
  });
});

describe('a server that offers more tools than a session takes', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => ({ name: `t${at}` }));

  it.each([
    [many(501), 'offers the agent tester too much: tools: 501, bytes of their definitions: 34350'],
    [
      many(2).map((tool) => ({ ...tool, description: 'x'.repeat(200_000) })),
      'offers the agent tester too much: tools: 2, bytes of their definitions: 400127',
    ],
    [many(2_001), 'lists more than 2000 tools'],
    [
      many(20).map((tool) => ({ ...tool, description: 'x'.repeat(200_000) })),
      'lists tools with more than 2097152 bytes of definitions',
    ],
  ])('is refused, with its name and the numbers', async (tools, numbers) => {
    using files = createServerFiles(...tools);
    await using fixture = createMcpFixture({ own: files.config });
    const refused = await fixture.pin([{ mcp: 'own' }]).catch((error) => error);
    expect(refused).toMatchObject({ code: 'tools_unavailable' });
    expect(refused.message).toMatch(new RegExp(`^The MCP server own ${numbers}`));
  });

  it('is not asked again for a while if its list was too long', async () => {
    using files = createServerFiles(...many(2_001));
    await using fixture = createMcpFixture({ own: files.config });
    const pin = () => fixture.pin([{ mcp: 'own' }]);
    await expect(pin()).rejects.toThrow('lists more than 2000 tools');
    files.offer({ name: 'find' });
    await expect(pin()).rejects.toThrow('lists more than 2000 tools');
    expect(files.pids()).toHaveLength(1);
  });

  it('is asked again afterwards', async () => {
    using files = createServerFiles(...many(2_001));
    await using fixture = createMcpFixture({ own: files.config }, process.env, { maxListAgeMs: 0 });
    await expect(fixture.pin([{ mcp: 'own' }])).rejects.toThrow('lists more than 2000 tools');
    files.offer({ name: 'find' });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    expect((await fixture.toolsOf(agent)).map(({ name }) => name)).toEqual(['own__find']);
  });

  it('is taken where the agent names the ones that it needs, and its other sessions go on', async () => {
    using files = createServerFiles({ name: 'announce' }, ...many(499));
    await using fixture = createMcpFixture({ own: files.config });
    const earlier = await fixture.pin([{ mcp: 'own' }]);
    files.offer({ name: 'announce' }, ...many(600));
    await fixture.call(earlier, 'own__announce');
    await expect(fixture.pin([{ mcp: 'own' }])).rejects.toThrow('at most 500 tools');
    const later = await fixture.pin([{ mcp: 'own', include: ['t1', 't599'] }]);
    expect((await fixture.toolsOf(later)).map(({ name }) => name)).toEqual(['own__t1', 'own__t599']);
    expect(await fixture.call(earlier, 'own__t1')).toBe('t1 {}');
  });
});

/** Pauses of this length, of which chance may take half away. */
const upTo = (ms: number): number[] => Array.from({ length: ms / 2 + 1 }, (_, less) => ms - less);

describe('a server that cannot be reached', () => {
  it('is waited for a little longer each time, and keeps nothing else from working', async () => {
    using files = createServerFiles({ name: 'find' });
    const down = { command: process.execPath, args: ['-e', 'process.exit(7)'] };
    await using fixture = createMcpFixture({ down, own: files.config, gone: { url: 'http://127.0.0.1:1/mcp' } });
    const message = 'The MCP server down cannot be reached: it ended with exit code 7.';
    const refused = { code: 'tools_unavailable', message };
    await expect(fixture.pin([{ mcp: 'down' }])).rejects.toMatchObject(refused);
    await expect(fixture.pin([{ mcp: 'down' }])).rejects.toMatchObject(refused);
    await expect(fixture.pin([{ mcp: 'gone' }])).rejects.toMatchObject({ code: 'tools_unavailable' });
    const pauses = fixture.logged.flatMap((entry) =>
      entry.event === 'mcp_server_failed' && entry.server === 'down' ? [entry.retryInMs] : [],
    );
    expect(pauses).toEqual([expect.toBeOneOf(upTo(250)), expect.toBeOneOf(upTo(500))]);
    expect(fixture.logged[0]).toMatchObject({ error: { message: 'it ended with exit code 7' } });
    expect(await fixture.call(await fixture.pin([{ mcp: 'own' }]), 'own__find')).toBe('find {}');
  });
});

it('a server that has not answered yet keeps no process from ending', async () => {
  await using silent = await startSilentServer();
  const logged: LogEvent[] = [];
  const servers = createMcpServers({}, { environment: {}, log: (_level, event) => logged.push(event) });
  const mcpServers = { docs: { url: silent.url, timeoutMs: 120_000, trust: false } };
  const agent = agentSchema.parse({ name: 'a', model: 'simulated/a', tools: [{ mcp: 'docs' }], mcpServers });
  const pinned = servers.pin(agent, new AbortController().signal).catch((error: unknown) => error);
  await eventually(async () => silent.requests() > 0, 'the server is asked');
  const closed = servers[Symbol.asyncDispose]();
  // Not that it gave no answer in time.
  const cause = { message: expect.stringContaining('Connection closed') };
  expect(await pinned).toMatchObject({ message: 'The MCP server docs is being closed.', cause });
  await closed;
  expect(logged).toEqual([]);
});

describe('the process of a server', () => {
  it('ends with the connection', async () => {
    using files = createServerFiles({ name: 'find' });
    const fixture = createMcpFixture({ own: files.config });
    await fixture.pin([{ mcp: 'own' }]);
    expect(files.pids().map(isRunning)).toEqual([true]);
    await fixture[Symbol.asyncDispose]();
    expect(files.pids().map(isRunning)).toEqual([false]);
  });

  it('is heard on stderr line by line, of a line without an end the beginning', async () => {
    const lines: string[] = [];
    const say = `process.stderr.write('one\\r\\n\\ntwo\\n' + 'é'.repeat(200_000) + '\\nthree\\n' + 'y'.repeat(200_000))`;
    const { ended } = await startServerProcess({
      command: process.execPath,
      args: ['-e', say],
      cwd: undefined,
      environment: process.env,
      onLine: (line) => lines.push(line),
    });
    expect(await ended).toBe(0);
    expect(lines).toEqual(['one', 'two', 'é'.repeat(16_384), 'three', 'y'.repeat(16_384)]);
  });

  it('is logged no more than a bounded number of lines, however often it starts, and then how many were left out', async () => {
    using files = createServerFiles({ name: 'find' });
    const { command, args } = files.config;
    const flood = 'i=0; while [ $i -lt 700 ]; do i=$((i+1)); echo "line $i" >&2; done; exec "$@"';
    const own = { command: '/bin/sh', args: ['-c', flood, 'sh', command, ...args] };
    const fixture = createMcpFixture({ own });
    const agent = await fixture.pin([{ mcp: 'own' }]);
    process.kill(files.pids()[0] ?? 0, 'SIGKILL');
    await eventually(async () => fixture.logged.some(({ event }) => event === 'mcp_server_failed'), 'it has ended');
    expect(await fixture.call(agent, 'own__find')).toBe('find {}');
    await fixture[Symbol.asyncDispose]();
    const said = fixture.logged.filter(({ event }) => event.startsWith('mcp_server_output'));
    expect(said).toEqual([
      ...Array.from({ length: 500 }, (_, at) => ({
        event: 'mcp_server_output',
        server: 'own',
        line: `line ${at + 1}`,
      })),
      // The shell around it may say that it was killed.
      { event: 'mcp_server_output_left_out', server: 'own', lines: expect.toSatisfy((lines) => lines >= 900) },
    ]);
  });

  it('dies with its worker, however that dies and whatever it is doing', async () => {
    using files = createServerFiles({ name: 'hang' });
    const { command, args } = files.config;
    const shell = `trap "" TERM; echo "start $$" >> "$0"; "$@"; sleep 1000`;
    const stubborn = ['-c', shell, args.at(-1) ?? '', command, ...args];
    const module = fileURLToPath(new URL('./mcp-worker.ts', import.meta.url));
    const worker = spawn(process.execPath, [module, '/bin/sh', ...stubborn], { stdio: 'ignore' });
    const exited = once(worker, 'exit');
    await isCalled(files).finally(() => worker.kill('SIGKILL'));
    await exited;
    expect(files.pids().length, 'the shell around the server, and the server').toBe(2);
    await eventually(async () => !files.pids().some(isRunning), 'both are gone');
  });
});
