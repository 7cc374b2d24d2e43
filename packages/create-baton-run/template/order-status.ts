import { tool } from '@baton-run/server';
import { z } from 'zod';

const ORDERS: Record<string, string> = { 'order-7': 'shipped on Monday', 'order-8': 'waits for its payment' };

export const orderStatus = tool({
  description: 'Says how an order is.',
  inputSchema: z.object({ order: z.string().describe('The id of the order: order-7') }),
  execute: ({ order }) => ORDERS[order] ?? `There is no ${order}.`,
  readOnly: true,
});
