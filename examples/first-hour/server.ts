import { openai } from '@ai-sdk/openai';
import { createBaton, defineAgent, simulated } from '@baton-run/server';
import express from 'express';
import { z } from 'zod';

const { PORT = '3000', DATABASE_URL: databaseUrl, OPENAI_API_KEY } = process.env;
const HERE = `127.0.0.1:${PORT}`;
const orders = new Map([['order-7', { total: 120, paidBack: 0 }]]);
const Outcome = z.object({ reply: z.string(), paidBack: z.number() });
const outcomes: z.infer<typeof Outcome>[] = [];
// Without a key a simulated model plays these answers.
const rehearsal = simulated([
  { toolCalls: [{ tool: 'refund', input: { order: 'order-7' } }] },
  { result: { reply: 'order-7 is paid back.', paidBack: 120 } },
]);

const baton = await createBaton({
  databaseUrl,
  webhooks: [{ key: 'app', url: `http://${HERE}/heard`, secret: 'a-secret-of-24-or-more-bytes' }],
  webhooksAllowedHosts: [HERE], // this machine
  agents: [
    defineAgent({
      name: 'clerk',
      model: OPENAI_API_KEY ? openai('gpt-5.4-mini') : rehearsal,
      instructions: 'You help customers with their orders.',
      tools: {
        refund: {
          description: 'Pays an order back.',
          inputSchema: z.object({ order: z.string() }),
          execute: ({ order: id }) => {
            const order = orders.get(id);
            if (order !== undefined) order.paidBack = order.total;
            return order ?? 'There is no such order.';
          },
        },
      },
      approvals: ['refund'], // a person answers in the console
      output: Outcome,
    }),
  ],
  console: {
    authenticate: ({ headers }) =>
      headers.get('cookie')?.includes('staff=yes') ? { tenantId: 'default', scopes: ['read', 'write'] } : null,
    loginUrl: '/login',
  },
});
await baton.startWorker();

const app = express().use('/agent', baton.handler).use(express.json());
app.get('/login', (_request, response) => response.cookie('staff', 'yes').redirect('/agent/console/inbox'));
app.post('/questions', async ({ body }, response) => {
  const { id } = await baton.client.sessions.create({ agent: 'clerk' });
  response.json(await baton.client.send(id, body.question));
});
app.post('/heard', ({ body }, response) => {
  if (body.type === 'run:completed') outcomes.push(Outcome.parse(body.data.value));
  response.json({});
});
app.get('/outcomes', (_request, response) => response.json({ outcomes, orders: [...orders] }));
app.listen(Number(PORT)).once('listening', () => process.stdout.write(`http://${HERE}/agent/console/\n`));
