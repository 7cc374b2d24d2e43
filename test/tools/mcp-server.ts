// An MCP server over stdio whose tools stand in a file: mcp-server.ts <tools.json> <ledger>. For tests that change the
// file or kill the server; what is called is written to the ledger.
import { appendFileSync, readFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [file = '', ledger = ''] = process.argv.slice(2);
appendFileSync(ledger, `start ${process.pid}\n`);
const server = new Server({ name: 'fixture', version: '1' }, { capabilities: { tools: { listChanged: true } } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: JSON.parse(readFileSync(file, 'utf8')) }));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  appendFileSync(ledger, `${params.name} ${params._meta?.['baton/callKey']} of ${params._meta?.['baton/tenantId']}\n`);
  if (params.name.startsWith('hang')) await new Promise(() => undefined);
  if (params.name === 'announce') await server.sendToolListChanged();
  return { content: [{ type: 'text', text: `${params.name} ${JSON.stringify(params.arguments)}` }] };
});
const transport = new StdioServerTransport();
await server.connect(transport);
const { onmessage } = transport;
transport.onmessage = (message) => {
  if ('method' in message && message.method === 'notifications/cancelled') appendFileSync(ledger, 'cancelled\n');
  onmessage?.(message);
};
