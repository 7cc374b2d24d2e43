import { z } from 'zod';
import type { Reply, ScriptedToolCall } from '../../../simulator/reply.ts';
import type { SimulatedRequest } from '../../../simulator/request.ts';

const callSchema = z.object({ name: z.string(), input: z.record(z.string(), z.unknown()) });

const orderSchema = z.strictObject({
  /** Name of the gate that the answer waits for. */
  hold: z.string().optional(),
  /** Length of the answer in characters; it streams in pieces of 1 kB. */
  chars: z.number().optional(),
  /** Tool calls, round by round; then the answer. */
  rounds: z.array(z.array(callSchema)).optional(),
  /** The provider refuses the request and asks for this pause. */
  retryAfterSeconds: z.number().optional(),
});

/** An order to the simulated model, in a user's message. */
export type Order = z.infer<typeof orderSchema>;

const MARK = '\nORDER ';
const CHUNK_CHARS = 1_000;

/** A message with an order to the model. */
export const withOrder = (text: string, order: Order): string => `${text}${MARK}${JSON.stringify(order)}`;

/** Replies as the order in the last user message says. Without an order it answers at once. */
export function obey({ messages }: SimulatedRequest): Reply {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  const { hold, chars, rounds = [], retryAfterSeconds } = readOrder(messages[lastUser]?.text ?? '');
  if (retryAfterSeconds !== undefined) {
    return { fault: { kind: 'rate-limit', retryAfterMs: retryAfterSeconds * 1_000 } };
  }
  const round = messages.slice(lastUser + 1).filter(({ role }) => role === 'assistant').length;
  const toolCalls: readonly ScriptedToolCall[] | undefined = rounds[round];
  return {
    text: chars === undefined ? 'done' : 'x'.repeat(chars),
    ...(chars !== undefined && { chunkChars: CHUNK_CHARS }),
    ...(toolCalls !== undefined && { toolCalls }),
    ...(hold !== undefined && { gates: { beforeFirstChunk: hold } }),
  };
}

function readOrder(text: string): Order {
  const at = text.lastIndexOf(MARK);
  if (at < 0) return {};
  const [line = ''] = text.slice(at + MARK.length).split('\n', 1);
  return orderSchema.parse(JSON.parse(line));
}
