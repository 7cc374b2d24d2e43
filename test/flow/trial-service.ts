import { createHmac, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { createClient } from '@baton-run/server/client';

// A third-party service that knows Baton by its client and its documents alone: it gives a task with a schema, hears of
// its end by a signed webhook, and reads the result. All its state is in a file, so it may be killed.

const { PORT = '0', BATON_URL = '', STATE_FILE = '', HOOK_SECRET = '' } = process.env;
const client = createClient({ baseUrl: BATON_URL });
type State = { runs: Record<string, string>; heard: string[]; results: Record<string, unknown> };
const state: State = existsSync(STATE_FILE)
  ? JSON.parse(readFileSync(STATE_FILE, 'utf8'))
  : { runs: {}, heard: [], results: {} };
const save = (): void => writeFileSync(STATE_FILE, JSON.stringify(state));

const schema = {
  type: 'object',
  properties: { total: { type: 'number' } },
  required: ['total'],
  additionalProperties: false,
} as const;

async function submit(order: string): Promise<void> {
  const session = await client.sessions.create({ agent: 'lead', key: `order-${order}` });
  const webhook = { url: `http://127.0.0.1:${PORT}/hook`, secret: HOOK_SECRET };
  const options = { output: { schema }, webhook, idempotencyKey: `order-${order}` };
  state.runs[(await client.send(session.id, `What does order ${order} cost?`, options)).runId] = order;
  save();
}

async function hear(headers: IncomingMessage['headers'], body: string): Promise<number> {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const key = Buffer.from(HOOK_SECRET.slice('whsec_'.length), 'base64');
  const own = Buffer.from(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  const given = Buffer.from(String(headers['webhook-signature']));
  if (given.length !== own.length || !timingSafeEqual(given, own)) return 401;
  const { id, data } = JSON.parse(body);
  if (state.heard.includes(id)) return 204;
  const { output } = await client.runs.result(data.run.id);
  state.results[state.runs[data.run.id] ?? 'unknown'] = output;
  state.heard.push(id);
  save();
  return 204;
}

createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  if (request.url === '/hook') return response.writeHead(await hear(request.headers, body).catch(() => 500)).end();
  if (request.method === 'POST') await submit(body);
  return response.end(JSON.stringify(state));
}).listen(Number(PORT), '127.0.0.1', () => process.stdout.write('listening\n'));
