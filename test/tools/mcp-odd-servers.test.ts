import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { parseExactly } from '../../src/domain/exact-json.ts';

import { type Answer, type Odd, openOdd, said, tool } from './odd-server.ts';

describe('a server that writes null for absent', () => {
  it.each([
    { instructions: null, _meta: null },
    { capabilities: { tools: { listChanged: null }, logging: null, experimental: null } },
    { capabilities: { tools: true } },
    { serverInfo: { name: 'x', version: null, title: null, icons: null } },
    { serverInfo: null },
  ])('at the beginning is used: %j', async (initialize) => {
    await using odd = await openOdd({ initialize });
    expect(await odd.fixture.call(await odd.pin(), 'm__good')).toBe('42 rows');
  });

  it.each([
    { annotations: { readOnlyHint: null, title: null }, description: null, title: null },
    { annotations: null, _meta: null, icons: null, execution: null, outputSchema: null },
    { outputSchema: { $ref: '#/$defs/Node', $defs: { Node: {} } } },
    { inputSchema: {} },
    { inputSchema: null },
    { inputSchema: { type: 'object', properties: null, required: null } },
    { inputSchema: { type: 'object', properties: { x: true, y: null } } },
    { inputSchema: { type: ['object', 'null'] } },
    { inputSchema: { $ref: '#/$defs/Node', $defs: { Node: { properties: { next: { $ref: '#/$defs/Node' } } } } } },
  ])('in its list loses no tool: %j', async (more) => {
    await using odd = await openOdd({ list: () => ({ tools: [tool('good'), tool('odd', more)], _meta: null }) });
    const tools = await odd.fixture.toolsOf(await odd.pin());
    expect(tools.map(({ name }) => name)).toEqual(['m__good', 'm__odd']);
    expect(tools.every(({ inputSchema }) => 'type' in inputSchema && inputSchema.type === 'object')).toBe(true);
    expect(JSON.stringify(tools)).not.toContain('null');
  });
});

describe('a tool that cannot be offered', () => {
  it.each([
    [
      tool('bad', { inputSchema: { type: 'array' } }),
      'inputSchema.type: must be "object": providers take no other root',
    ],
    [tool('bad', { inputSchema: 'none' }), 'inputSchema: is no object'],
    [tool('bad', { description: 'x'.repeat(300_000) }), 'its definition has more than 262144 bytes'],
    [{ description: 'nameless' }, 'it has no name'],
    ['bad', 'it is no object'],
    [null, 'it is no object'],
  ])('is left out alone, with the reason', async (listed, reason) => {
    await using odd = await openOdd({ list: () => ({ tools: [listed, tool('good')] }) });
    const agent = await odd.pin();
    expect(await odd.fixture.call(agent, 'm__good')).toBe('42 rows');
    await odd.pin();
    const logged = odd.fixture.logged.filter(({ event }) => event === 'mcp_tool_left_out');
    expect(logged, 'once').toMatchObject([{ server: 'm', reason }]);
    expect(await odd.fixture.servers.leftOut(agent)).toMatchObject([{ server: 'm', reason }]);
  });

  it('takes no tool from a session that runs', async () => {
    let listed: unknown[] = [tool('good')];
    await using odd = await openOdd({ list: () => ({ tools: listed }) });
    const agent = await odd.pin();
    listed = [tool('good'), null, tool('new', { annotations: null })];
    const later = await odd.pin();
    expect(await odd.fixture.call(agent, 'm__good')).toBe('42 rows');
    expect(await odd.fixture.call(later, 'm__new')).toBe('42 rows');
  });
});

describe('the list of a server', () => {
  const page = (name: string, nextCursor: unknown) => ({ tools: [tool(name)], nextCursor });

  it.each<[string, (cursor: unknown, n: number) => object, string[], number]>([
    ['a cursor of null', () => page('a', null), ['a'], 1],
    ['the same page for ever by an empty cursor', () => page('a', ''), ['a'], 2],
    ['the same page for ever by one cursor', () => page('a', 'x'), ['a'], 2],
    ['the same page for ever by new cursors', (_cursor, n) => page('a', `x${n}`), ['a'], 2],
    ['new pages for ever by one cursor', (_cursor, n) => page(`a${n}`, 'x'), ['a1', 'a2'], 2],
    ['a second page by an empty cursor', (cursor) => (cursor === '' ? page('b', null) : page('a', '')), ['a', 'b'], 2],
    ['a cursor that is a number', (cursor) => (cursor === 2 ? page('b', null) : page('a', 2)), ['a', 'b'], 2],
    [
      'an empty page between',
      (_cursor, n) => (n === 2 ? { tools: null, nextCursor: 'c' } : page(`a${n}`, n === 1 ? 'b' : null)),
      ['a1', 'a3'],
      3,
    ],
  ])('ends with %s', async (_what, list, names, requests) => {
    let pages = 0;
    await using odd = await openOdd({
      list({ cursor }) {
        pages = cursor === undefined ? 1 : pages + 1;
        return list(cursor, pages);
      },
    });
    const tools = await odd.fixture.toolsOf(await odd.pin());
    expect(tools.map(({ name }) => name)).toEqual(names.map((name) => `m__${name}`));
    // Once for the connection, once for the session.
    expect(odd.server.count('tools/list')).toBe(2 * requests);
  });

  it('that is none is told', async () => {
    await using odd = await openOdd({ list: () => ({ tools: 'none' }) });
    await expect(odd.pin()).rejects.toThrow('The MCP server m answers what is no list of tools: {"tools":"none"}');
  });
});

describe('an answer that cannot be read', () => {
  const write = (response: ServerResponse, type: string, body: string): true => {
    response.writeHead(200, { 'content-type': type }).end(body);
    return true;
  };
  it.each<[string, string, string]>([
    ['application/json', '{"jsonrpc":"2.0","id":2,"result":', '"result":'],
    ['application/json', '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0"}'],
    ['text/html', '<html>Proxy</html>', 'Proxy'],
    ['application/json', '', 'nothing'],
    ['text/event-stream', 'data: {"jsonrpc"\n\n', '{"jsonrpc"'],
  ])('is told as text, and not called for again: %s %s', async (type, body, words) => {
    await using odd = await openOdd(
      {
        list: () => ({ tools: [tool('good', { annotations: { idempotentHint: true } })] }),
        before: ({ method }, _request, response) => (method === 'tools/call' ? write(response, type, body) : undefined),
      },
      { trust: true },
    );
    const failed = odd.fixture.call(await odd.pin(), 'm__good');
    await expect(failed).rejects.toThrow(
      /^The MCP server m answered the call with what cannot be read .*taken effect/s,
    );
    await expect(failed).rejects.toThrow(words);
    expect(odd.server.count('tools/call')).toBe(1);
  });

  it.each([
    ['an error without an id', '"id":null,"error":{"code":-32000,"message":"no rows"}', 'no rows'],
    ['an error whose code is a text', '"error":{"code":"E_ROWS","message":"no rows"}', 'no rows'],
    ['an error that is a text', '"error":"no rows"', 'no rows'],
  ])('but has words gives these: %s', async (_what, rest, words) => {
    await using odd = await openOdd({ call: () => rest });
    await expect(odd.fixture.call(await odd.pin(), 'm__good')).rejects.toThrow(words);
  });

  it('for its id alone is an answer: a number as a text, no version', async () => {
    await using odd = await openOdd({
      before: ({ id, method }, _request, response) =>
        method === 'tools/call'
          ? write(response, 'text/plain', JSON.stringify({ id: String(id), result: said('42 rows'), error: null }))
          : undefined,
    });
    expect(await odd.fixture.call(await odd.pin(), 'm__good')).toBe('42 rows');
  });

  it('of a stream without its last empty line is read', async () => {
    await using odd = await openOdd({
      before: ({ id, method }, _request, response) =>
        method === 'tools/call'
          ? write(
              response,
              'text/event-stream',
              `data:${JSON.stringify({ jsonrpc: '2.0', id, result: said('42 rows') })}`,
            )
          : undefined,
    });
    expect(await odd.fixture.call(await odd.pin(), 'm__good')).toBe('42 rows');
  });
});

it('a call keeps the digits and the order of keys in both directions', async () => {
  await using odd = await openOdd({
    call: (_params, raw) => said(/"arguments":(\{.*?\}),"_meta"/.exec(raw)?.[1] ?? raw),
  });
  const input = '{"z":2512292042121000001,"7":1.10,"a":{"2":0,"1":1e3}}';
  expect(await odd.fixture.call(await odd.pin(), 'm__good', parseExactly(input))).toBe(input);
});

describe('a server that was started again, and forgot its sessions', () => {
  const status = (response: ServerResponse, code: number, body: string): true => {
    response.writeHead(code, { 'content-type': 'text/plain' }).end(body);
    return true;
  };
  it.each<[string, (response: ServerResponse) => Answer]>([
    ['-32602', () => '"error":{"code":-32602,"message":"Invalid request parameters","data":""}'],
    ['-32600', () => '"error":{"code":-32600,"message":"Received request before initialization was complete"}'],
    ['-32080', () => '"error":{"code":-32080,"message":"Bad Request"}'],
    ['-32001', () => '"error":{"code":-32001,"message":"Session not found"}'],
    ['-32000', () => '"error":{"code":-32000,"message":"Bad Request: Server not initialized"}'],
    ['404', (response) => status(response, 404, 'gone')],
    ['400', (response) => status(response, 400, 'Bad Request: Server not initialized')],
    ['400 without words', (response) => status(response, 400, '')],
    ['401', (response) => status(response, 401, 'unknown token')],
  ])('by %s is asked anew at once, and the call is made once', async (_how, forgotten) => {
    let epoch = 0;
    let calls = 0;
    await using odd = await openOdd({
      session: () => `s${epoch}`,
      before: ({ method }, request, response) =>
        method !== 'initialize' && request.headers['mcp-session-id'] !== `s${epoch}` ? forgotten(response) : undefined,
      call: () => said(`call ${++calls}`),
    });
    const agent = await odd.pin();
    expect(await odd.fixture.call(agent, 'm__good')).toBe('call 1');
    epoch += 1;
    expect(await odd.fixture.call(agent, 'm__good')).toBe('call 2');
    epoch += 1;
    expect(await odd.fixture.call(await odd.pin(), 'm__good'), 'of a new session').toBe('call 3');
    expect(odd.server.count('initialize')).toBe(3);
  });

  it('by an error that may come after the effect is asked anew, but the call is not made again', async () => {
    let epoch = 0;
    await using odd = await openOdd({
      session: () => `s${epoch}`,
      before: ({ method }, request, response) =>
        method !== 'initialize' && request.headers['mcp-session-id'] !== `s${epoch}`
          ? status(response, 500, 'oops')
          : undefined,
    });
    const agent = await odd.pin();
    epoch += 1;
    await expect(odd.fixture.call(agent, 'm__good')).rejects.toThrow('HTTP 500: oops');
    expect(await odd.fixture.call(agent, 'm__good')).toBe('42 rows');
  });

  it('is told from one that knows the session and refuses the call', async () => {
    await using odd = await openOdd({ call: () => '"error":{"code":-32602,"message":"rows must be a number"}' });
    await expect(odd.fixture.call(await odd.pin(), 'm__good')).rejects.toThrow('rows must be a number');
    expect([odd.server.count('tools/call'), odd.server.count('initialize')]).toEqual([1, 1]);
  });

  it('and refuses every connection is asked a bounded number of times', async () => {
    let isDown = false;
    await using odd = await openOdd({
      before: (_message, _request, response) => (isDown ? status(response, 401, '') : undefined),
    });
    const agent = await odd.pin();
    isDown = true;
    await expect(odd.fixture.call(agent, 'm__good')).rejects.toThrow('wants a login');
    expect(odd.server.count('tools/call') + odd.server.count('initialize')).toBeLessThanOrEqual(3);
  });
});

describe('a server that answers is not out of reach', () => {
  const refuse = (code: number, headers: Record<string, string>, body: string): Odd => ({
    before: (_message, _request, response) => {
      response.writeHead(code, headers).end(body);
      return true;
    },
  });
  it.each<[string, Odd, RegExp]>([
    ['405', refuse(405, {}, ''), /answered HTTP 405: it speaks no streamable HTTP.*older HTTP\+SSE/],
    ['404', refuse(404, {}, 'no such page'), /answered HTTP 404: no such page.*streamable HTTP/],
    [
      '401',
      refuse(401, { 'www-authenticate': 'Bearer realm="rows"' }, ''),
      /wants a login: it answered HTTP 401, and asks for: Bearer realm="rows".*headersFromEnv/,
    ],
    ['403', refuse(403, {}, 'not you'), /wants a login: it answered HTTP 403: not you/],
    ['500', refuse(500, {}, 'the disk is full'), /answered HTTP 500: the disk is full/],
    ['a page', refuse(200, { 'content-type': 'text/html' }, '<!doctype html><p>Hello'), /text\/html/],
    ['a page with 502', refuse(502, { 'content-type': 'text/html' }, '<html>'), /HTTP 502 with a web page/],
    ['an older revision', { initialize: { protocolVersion: '2023-01-01' } }, /speaks the revision 2023-01-01/],
    [
      'the revisions that it wants',
      {
        before: () =>
          '"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2027-01-01"]}}',
      },
      /error -32602: Unsupported protocol version.*It speaks the revisions "2027-01-01"/,
    ],
  ])('and its words are told: %s', async (_what, odd, words) => {
    await using opened = await openOdd(odd);
    const refused = opened.pin();
    await expect(refused).rejects.toMatchObject({ code: 'tools_unavailable' });
    await expect(refused).rejects.toThrow(words);
    await expect(refused).rejects.not.toThrow('cannot be reached');
  });
});
