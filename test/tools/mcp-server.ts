// An MCP server over stdio for tests that change its tools or kill it: mcp-server.ts <tools.json> <ledger>. It reads
// its tools from the file and writes calls to the ledger. It sends a tool's `answer` past the SDK, which would refuse
// to send one that is not valid.
import { appendFileSync, readFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [file = '', ledger = ''] = process.argv.slice(2);
appendFileSync(ledger, `start ${process.pid}\n`);
const server = new Server({ name: 'fixture', version: '1' }, { capabilities: { tools: { listChanged: true } } });
type OfferedTool = Readonly<{ name: string; answer?: Readonly<Record<string, unknown>> }>;
const toolsOfFile = (): OfferedTool[] => JSON.parse(readFileSync(file, 'utf8'));
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: toolsOfFile() }));
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
  if ('method' in message && 'id' in message && message.method === 'tools/call') {
    const called = toolsOfFile().find(({ name }) => name === message.params?.['name']);
    if (called?.answer !== undefined) {
      return void transport.send({ jsonrpc: '2.0', id: message.id, result: called.answer });
    }
  }
  onmessage?.(message);
};
