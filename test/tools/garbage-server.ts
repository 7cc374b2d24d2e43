// An MCP server over stdio that says garbage before and after each of its answers, on stdout and stderr:
// garbage-server.ts <garbage as JSON>.
import { createInterface } from 'node:readline';

const garbage: readonly string[] = JSON.parse(process.argv[2] ?? '[]');
const say = (message: object): void => {
  for (const each of garbage) {
    process.stdout.write(`${each}\n`);
    process.stderr.write(`${each}\n`);
  }
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
};
const answers: Readonly<Record<string, (params: Record<string, unknown>) => object>> = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'garbage', version: '1' },
  }),
  'tools/list': () => ({ tools: [{ name: 'find', inputSchema: { type: 'object' } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'found' }] }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = answers[method];
  if (id !== undefined) say({ id, result: answer === undefined ? {} : answer(params) });
});
