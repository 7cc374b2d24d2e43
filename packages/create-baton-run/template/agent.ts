import { openai } from '@ai-sdk/openai';
import { defineAgent } from '@baton-run/server';
import { orderStatus } from './order-status.ts';

export const clerk = defineAgent({
  name: 'clerk',
  model: openai('gpt-5.4-mini'),
  instructions: 'You help customers with their orders. Look an order up before you speak of it.',
  tools: { order_status: orderStatus },
});
