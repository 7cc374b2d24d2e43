import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { createMcpFixture } from './mcp-fixture.ts';
import { EVERYTHING, serveEverything, serveFilesystem, startHttpServer, TRANSPORTS } from './reference-servers.ts';

describe.each(TRANSPORTS)('the reference server over %s', (transport) => {
  it('is listed and called: text, structured content, an image, resources, errors', async () => {
    await using served = await serveEverything(transport);
    await using fixture = createMcpFixture({ all: served.config });
    const agent = await fixture.pin([{ mcp: 'all' }]);
    const tools = await fixture.toolsOf(agent);
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['all__echo', 'all__get-sum', 'all__get-tiny-image']));
    expect(names, 'a tool that is done as a task').toContain('all__simulate-research-query');
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
    await using served = await serveEverything(transport);
    await using fixture = createMcpFixture({ all: served.config });
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
    await using served = await serveEverything(transport);
    await using fixture = createMcpFixture({ all: { ...served.config, trust: true } });
    const agent = await fixture.pin([{ mcp: 'all', include: ['echo', 'toggle-simulated-logging'] }]);
    expect(await fixture.toolsOf(agent)).toMatchObject([
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
  await using fixture = createMcpFixture({ all: { ...EVERYTHING, timeoutMs: 3_000 } });
  const agent = await fixture.pin([{ mcp: 'all' }]);
  const long = fixture.call(agent, 'all__trigger-long-running-operation', { duration: 4, steps: 16 });
  expect(await long).toContain('Long running operation completed');
  const silent = fixture.call(agent, 'all__trigger-long-running-operation', { duration: 600, steps: 1 });
  await expect(silent).rejects.toThrow('was told to stop the call. The outcome of the call is unknown');
});

describe.each(TRANSPORTS)('the file system server over %s', (transport) => {
  it('reads, shows and writes what it may, and nothing else', async () => {
    await using folder = await temporaryFolder();
    const at = (name: string) => ({ path: path.join(folder.path, name) });
    writeFileSync(at('notes.txt').path, 'the notes');
    writeFileSync(at('dot.png').path, PNG);
    await using served = await serveFilesystem(transport, folder.path);
    await using fixture = createMcpFixture({ files: served.config });
    const agent = await fixture.pin([{ mcp: 'files', exclude: ['edit_file'] }]);
    const names = (await fixture.toolsOf(agent)).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['files__read_text_file', 'files__read_media_file']));
    expect(names).not.toContain('files__edit_file');
    expect(await fixture.call(agent, 'files__read_text_file', at('notes.txt'))).toBe('the notes');
    // It answers with the image twice: as content, and as structured content around that.
    expect(await fixture.call(agent, 'files__read_media_file', at('dot.png'))).toEqual({
      type: 'content',
      value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: PNG_BASE64 } }],
    });
    await fixture.call(agent, 'files__write_file', { ...at('new.txt'), content: 'written' });
    expect(await fixture.call(agent, 'files__read_text_file', at('new.txt'))).toBe('written');
    await expect(fixture.call(agent, 'files__read_text_file', { path: '/etc/passwd' })).rejects.toThrow('denied');
  });
});

it('a server gets no variable but those that are named', async () => {
  const environment = { ...process.env, NAMED: 'yes', OPENAI_API_KEY: 'sk-secret' };
  await using fixture = createMcpFixture({ env: { ...EVERYTHING, env: ['NAMED'] } }, environment);
  const agent = await fixture.pin([{ mcp: 'env', include: ['get-env'] }]);
  const seen = JSON.parse(String(await fixture.call(agent, 'env__get-env'))) as Record<string, string>;
  expect(seen).toMatchObject({ NAMED: 'yes', TERM: 'dumb' });
  expect(Object.keys(seen)).not.toContain('OPENAI_API_KEY');
});

it('a server that is not needed is not started', async () => {
  const fixture = createMcpFixture({ all: EVERYTHING });
  await fixture[Symbol.asyncDispose]();
  await eventually(async () => fixture.logged.length === 0, 'nothing is logged');
});
