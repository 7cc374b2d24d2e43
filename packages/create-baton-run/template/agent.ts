import { openai } from '@ai-sdk/openai';
import { defineAgent, simulated } from '@baton-run/server';
import { orderStatus } from './order-status.ts';

/** Without a key a simulated model plays these answers. */
const rehearsal = simulated([
  { toolCalls: [{ tool: 'order_status', input: { order: 'order-7' } }] },
  'order-7 was shipped on Monday. (A simulated model says so: put a key into .env for a real one.)',
]);

export const clerk = defineAgent({
  name: 'clerk',
  model: process.env.OPENAI_API_KEY ? openai('gpt-5.4-mini') : rehearsal,
  instructions: 'You help customers with their orders. Look an order up before you speak of it.',
  tools: { order_status: orderStatus },
});
