import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadMcpServers } from '../../src/agents/mcp-servers.ts';
import { BatonError } from '../../src/domain/errors.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { startTestApi } from '../http/test-api.ts';
import { startTestService } from '../support/service.ts';
import { createServerFiles, referenceServer } from '../tools/mcp-fixture.ts';

function mcpFile(content: unknown) {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-mcp-file-'));
  const file = path.join(folder, 'mcp.yaml');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return { file, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

describe('a session with MCP servers', () => {
  it('offers their tools as they were when it began, runs them, and keeps their results within the limits', async () => {
    using files = createServerFiles({ name: 'find', description: 'Finds.' }, { name: 'drop' });
    const everything = { command: process.execPath, args: [referenceServer('everything')] };
    using shared = mcpFile({ mcpServers: { all: everything } });
    await using service = await startTestService({ backend: 'postgres', environment: { BATON_MCP_FILE: shared.file } });
    service.simulator.script('test', [
      {
        toolCalls: [
          { name: 'own__find', input: { q: 'x'.repeat(5_000) } },
          { name: 'all__get-tiny-image', input: {} },
          { name: 'all__get-sum', input: { a: 'one' } },
        ],
      },
      { text: 'Done.' },
    ]);
    const session = await service.createSession({
      mcpServers: { own: { ...files.config, args: [...files.config.args], timeoutMs: 60_000, trust: false } },
      tools: [
        { mcp: 'own', exclude: ['drop'] },
        { mcp: 'all', include: ['get-tiny-image', 'get-sum'] },
      ],
      toolLimits: { own__find: { maxOutputChars: 1_000 } },
    });
    files.offer({ name: 'find', description: 'Something else.' });
    await service.startWorker();
    const { runId } = await service.send(session, 'Go');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    const offered = service.simulator.requests[0]?.request?.tools.map(({ name, description }) => [name, description]);
    expect(offered?.slice(0, 3)).toEqual([
      ['own__find', 'Finds.'],
      ['all__get-sum', expect.any(String)],
      ['all__get-tiny-image', 'Returns a tiny MCP logo image.'],
    ]);
    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    const calls = messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
    const url = expect.stringMatching(/^@blob:blob_/);
    const image = { type: 'file', mediaType: 'image/png', url, sizeBytes: expect.any(Number) };
    expect(calls.map(({ state, output }) => [state, output])).toEqual([
      [
        'completed',
        { type: 'text', value: expect.stringMatching(/characters cut out: read them with read_tool_output/) },
      ],
      ['completed', { type: 'content', value: [expect.anything(), image, expect.anything()] }],
      ['error', { type: 'error-text', value: expect.stringContaining('Instance type "string" is invalid') }],
    ]);
    expect(service.simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
    expect(service.simulator.requests[1]?.rawBody).toMatch(/"image_url":"data:image\/png;base64,iVBORw0KGgo/);
  });

  it('is not created while a server is down, and its creation can be repeated; its answer is kept for the same key', async () => {
    let isDown = true;
    await using api = await startTestApi({
      pinTools: async (agent) => {
        if (isDown) throw new BatonError('tools_unavailable', 'The MCP server docs cannot be reached.');
        return agent;
      },
    });
    const create = () => api.call('POST', '/v1/sessions', { agent: 'coder' }, { 'idempotency-key': 'once' });
    const refused = { code: 'tools_unavailable', detail: 'The MCP server docs cannot be reached.' };
    expect(await create()).toMatchObject({ status: 503, body: refused });
    isDown = false;
    const created = await create();
    expect(created.status).toBe(201);
    isDown = true;
    expect(await create()).toMatchObject({ status: 201, body: { id: created.body['id'] } });
  });
});

describe('the file of MCP servers', () => {
  it.each([
    ['nothing', '', '(root): '],
    ['an unknown key', { mcpServer: {} }, 'mcpServers: '],
    ['a server that is neither', { mcpServers: { docs: {} } }, 'mcpServers.docs: either command (stdio) or url'],
    [
      'a timeout that no call reaches',
      { mcpServers: { docs: { command: 'node', timeoutMs: 600_001 } } },
      'mcpServers.docs.timeoutMs: ',
    ],
    [
      'one that is both',
      { mcpServers: { docs: { command: 'a', url: 'http://b' } } },
      'mcpServers.docs: either command',
    ],
    ['a name that is none', { mcpServers: { my_docs: { command: 'a' } } }, 'mcpServers.my_docs: '],
    ['a key of the other kind', { mcpServers: { docs: { command: 'a', headersFromEnv: {} } } }, 'goes with url only'],
    [
      'a URL with a password',
      { mcpServers: { docs: { url: 'https://me:pw@docs' } } },
      'docs.url: must hold no credentials',
    ],
    [
      'a header with a value',
      { mcpServers: { docs: { url: 'https://docs', headersFromEnv: { a: 'b c' } } } },
      'headersFromEnv.a: ',
    ],
    ['what is no YAML', '{', 'line 1, column 2: not valid YAML: '],
  ])('is refused for %s, with the key', (_what, content, message) => {
    using given = mcpFile(content);
    expect(() => loadMcpServers(given.file)).toThrow(message);
  });
});
