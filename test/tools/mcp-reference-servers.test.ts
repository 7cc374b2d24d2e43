import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { createMcpFixture, type McpFixture, referenceServer } from './mcp-fixture.ts';

const EVERYTHING = { command: process.execPath, args: [referenceServer('everything')] };

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** The reference server over streamable HTTP, as a process of its own. */
async function startHttpServer(port: number) {
  const child = spawn(process.execPath, [referenceServer('everything'), 'streamableHttp'], {
    env: { PATH: process.env['PATH'], PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  for await (const text of child.stderr) if (String(text).includes('listening')) break;
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  return { kill, [Symbol.asyncDispose]: kill };
}

type Served = AsyncDisposable & Readonly<{ fixture: McpFixture }>;

const TRANSPORTS: readonly (readonly [string, (trust?: boolean) => Promise<Served>])[] = [
  [
    'stdio',
    async (trust = false) => {
      const fixture = createMcpFixture({ all: { ...EVERYTHING, trust } });
      return { fixture, [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose]() };
    },
  ],
  [
    'streamable HTTP',
    async (trust = false) => {
      await using stack = new AsyncDisposableStack();
      const port = await freePort();
      stack.use(await startHttpServer(port));
      const fixture = stack.use(createMcpFixture({ all: { url: `http://127.0.0.1:${port}/mcp`, trust } }));
      const owned = stack.move();
      return { fixture, [Symbol.asyncDispose]: () => owned.disposeAsync() };
    },
  ],
];

describe.each(TRANSPORTS)('the reference server over %s', (_transport, serve) => {
  it('is listed and called: text, structured content, an image, resources, errors', async () => {
    await using served = await serve();
    const { fixture } = served;
    const agent = await fixture.pin([{ mcp: 'all' }]);
    const tools = await fixture.toolsOf(agent);
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['all__echo', 'all__get-sum', 'all__get-tiny-image']));
    expect(names, 'a tool whose answer has to be asked for').not.toContain('all__simulate-research-query');
    expect(tools.find(({ name }) => name === 'all__echo')).toMatchObject({
      description: 'Echoes back the input string',
      inputSchema: { type: 'object', properties: { message: { type: 'string' } } },
      readOnly: false,
      idempotent: false,
    });
    expect(await fixture.call(agent, 'all__echo', { message: 'hällo' })).toBe('Echo: hällo');
    const weather = await fixture.call(agent, 'all__get-structured-content', { location: 'Chicago' });
    expect(weather).toEqual({ temperature: 36, conditions: 'Light rain / drizzle', humidity: 82 });
    const image = await fixture.call(agent, 'all__get-tiny-image');
    expect(image).toMatchObject({
      type: 'content',
      value: [
        { type: 'text', text: "Here's the image you requested:" },
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: expect.stringMatching(/^iVBORw0KGgo/) } },
        { type: 'text', text: expect.stringMatching(/^The image above/) },
      ],
    });
    const link = await fixture.call(agent, 'all__get-resource-reference', { resourceType: 'Text', resourceId: 1 });
    expect(link).toMatch(/\[resource demo:\/\/resource.*\]\nResource 1/);
    await expect(fixture.call(agent, 'all__get-sum', { a: 'one' })).rejects.toThrow(/Input validation error/);
  });

  it('can be told to stop a call, and goes on with others', async () => {
    await using served = await serve();
    const { fixture } = served;
    const agent = await fixture.pin([{ mcp: 'all' }]);
    const stop = new AbortController();
    const stopped = fixture.call(
      agent,
      'all__trigger-long-running-operation',
      { duration: 600, steps: 1 },
      stop.signal,
    );
    await fixture.call(agent, 'all__echo', { message: 'the other one is under way' });
    stop.abort(new Error('cancelled'));
    await expect(stopped).rejects.toThrow('was told to stop the call. The outcome of the call is unknown');
    expect(await fixture.call(agent, 'all__echo', { message: 'still here' })).toBe('Echo: still here');
  });

  it('is believed about its tools only where the configuration trusts it', async () => {
    await using served = await serve(true);
    const agent = await served.fixture.pin([{ mcp: 'all', include: ['echo', 'toggle-simulated-logging'] }]);
    expect(await served.fixture.toolsOf(agent)).toMatchObject([
      { name: 'all__echo', readOnly: true, idempotent: true },
      { name: 'all__toggle-simulated-logging', readOnly: false, idempotent: false },
    ]);
  });
});

describe('a server over streamable HTTP', () => {
  it('that was restarted is asked again: it had not begun the call', async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/mcp`;
    await using fixture = createMcpFixture({ all: { url } });
    const first = await startHttpServer(port);
    const agent = await fixture.pin([{ mcp: 'all' }]);
    await first.kill();
    await expect(fixture.call(agent, 'all__echo', { message: 'a' })).rejects.toThrow('all cannot be reached');
    const second = await startHttpServer(port);
    expect(await fixture.call(agent, 'all__echo', { message: 'b' })).toBe('Echo: b');
    await second.kill();
    await using _third = await startHttpServer(port);
    expect((await fixture.pin([{ mcp: 'all' }])).pinnedTools, 'new sessions as well').toEqual(agent.pinnedTools);
  });

  it('that goes away in mid-call leaves a call of unknown outcome', async () => {
    const port = await freePort();
    await using fixture = createMcpFixture({ all: { url: `http://127.0.0.1:${port}/mcp`, timeoutMs: 60_000 } });
    const server = await startHttpServer(port);
    const agent = await fixture.pin([{ mcp: 'all' }]);
    const running = fixture.call(agent, 'all__trigger-long-running-operation', { duration: 600, steps: 600 });
    await fixture.call(agent, 'all__echo', { message: 'after it' });
    const failed = expect(running).rejects.toThrow(
      /The connection to the MCP server all was lost\. The outcome .* unknown/,
    );
    await server.kill();
    await failed;
  });
});

it('progress keeps a call alive that takes longer than it may be silent', async () => {
  await using fixture = createMcpFixture({ all: { ...EVERYTHING, timeoutMs: 2_000 } });
  const agent = await fixture.pin([{ mcp: 'all' }]);
  const long = fixture.call(agent, 'all__trigger-long-running-operation', { duration: 3, steps: 12 });
  expect(await long).toContain('Long running operation completed');
  const silent = fixture.call(agent, 'all__trigger-long-running-operation', { duration: 600, steps: 1 });
  await expect(silent).rejects.toThrow('was told to stop the call. The outcome of the call is unknown');
});

describe('the file system server over stdio', () => {
  it('reads what it may, and gets no variable but those that are named', async () => {
    const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'baton-mcp-files-')));
    try {
      writeFileSync(path.join(folder, 'notes.txt'), 'the notes');
      const files = { command: process.execPath, args: [referenceServer('filesystem'), folder] };
      const env = { command: process.execPath, args: [referenceServer('everything')], env: ['NAMED'] };
      const environment = { ...process.env, NAMED: 'yes', OPENAI_API_KEY: 'sk-secret' };
      await using fixture = createMcpFixture({ files, env }, environment);
      const agent = await fixture.pin([
        { mcp: 'files', exclude: ['write_file', 'edit_file'] },
        { mcp: 'env', include: ['get-env'] },
      ]);
      const names = (await fixture.toolsOf(agent)).map(({ name }) => name);
      expect(names).toContain('files__read_text_file');
      expect(names).not.toContain('files__write_file');
      expect(await fixture.call(agent, 'files__read_text_file', { path: path.join(folder, 'notes.txt') })).toBe(
        'the notes',
      );
      await expect(fixture.call(agent, 'files__read_text_file', { path: '/etc/passwd' })).rejects.toThrow('denied');
      const seen = JSON.parse(String(await fixture.call(agent, 'env__get-env'))) as Record<string, string>;
      expect(seen).toMatchObject({ NAMED: 'yes', TERM: 'dumb' });
      expect(Object.keys(seen)).not.toContain('OPENAI_API_KEY');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

it('a server that is not needed is not started', async () => {
  const fixture = createMcpFixture({ all: EVERYTHING });
  await fixture[Symbol.asyncDispose]();
  await eventually(async () => fixture.logged.length === 0, 'nothing is logged');
});
