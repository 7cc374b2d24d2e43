#!/usr/bin/env bash
# @modelcontextprotocol/server: the handler of `tasks/update` is not given the `inputResponses` of its parameters.
#
# Guess: a handler gets the parameters of its request as they were sent. `inputResponses` is the only parameter of
# `tasks/update` (SEP-2663) beside the id of the task, so that a schema may require it.
# Seen: on a connection of 2026-07-28 the package takes `inputResponses` out of the parameters of any request, a method of
# the server's own included, as of a call that is made again. The handler gets the id alone, a schema that requires the
# responses refuses the request, and they are in `context.mcpReq.inputResponses`.
# Versions: @modelcontextprotocol/server 2.4.0, zod 4.6.7, Node 24. 2026-11-29.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @modelcontextprotocol/server@2.4.0 zod@4.6.7 >/dev/null 2>&1
cat >try.mjs <<'JS'
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { z } from 'zod';

const EXTENSION = 'io.modelcontextprotocol/tasks';
const ask = async (method, params, schema) => {
  const seen = [];
  const open = () => {
    const capabilities = { tools: {}, extensions: { [EXTENSION]: {} } };
    const server = new Server({ name: 's', version: '1' }, { capabilities });
    server.setRequestHandler(method, { params: schema }, (given, { mcpReq }) => {
      const { _meta, ...rest } = given;
      seen.push(`parameters ${JSON.stringify(rest)}, context ${JSON.stringify(mcpReq.inputResponses)}`);
      return {};
    });
    return server;
  };
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { extensions: { [EXTENSION]: {} } },
  };
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    'mcp-name': params.taskId,
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } });
  const { fetch } = createMcpHandler(open, { legacy: 'reject' });
  const response = await fetch(new Request('http://127.0.0.1/mcp', { method: 'POST', headers, body }));
  const text = (await response.text()).replace(/^[^{]*/, '');
  const { error } = JSON.parse(text.slice(0, text.lastIndexOf('}') + 1));
  return seen[0] ?? `refused: ${error?.code}`;
};

const params = { taskId: 't', inputResponses: { form: { action: 'accept', content: { copies: 2 } } } };
const loose = z.looseObject({ taskId: z.string() });
console.log('tasks/update:', await ask('tasks/update', params, loose));
const strict = loose.extend({ inputResponses: z.looseObject({}) });
console.log('a schema that requires them:', await ask('tasks/update', params, strict));
console.log('a method of one’s own:', await ask('acme/note', { ...params, note: 'n' }, loose));
JS
node try.mjs | tee seen
cat >expected <<'EOF'
tasks/update: parameters {"taskId":"t"}, context {"form":{"action":"accept","content":{"copies":2}}}
a schema that requires them: refused: -32602
a method of one’s own: parameters {"taskId":"t","note":"n"}, context {"form":{"action":"accept","content":{"copies":2}}}
EOF
diff expected seen && echo 'as described'
