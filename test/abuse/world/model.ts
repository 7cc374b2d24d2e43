import { z } from 'zod';
import type { Reply, ScriptedToolCall } from '../../../simulator/reply.ts';
import type { SimulatedRequest } from '../../../simulator/request.ts';

const callSchema = z.object({ name: z.string(), input: z.record(z.string(), z.unknown()) });

const orderSchema = z.strictObject({
  /** The answer waits for the gate of that name. */
  hold: z.string().optional(),
  /** The answer is that many characters long, in pieces of 1 kB. */
  chars: z.number().optional(),
  /** Tool calls, round by round; then the answer. */
  rounds: z.array(z.array(callSchema)).optional(),
  /** The provider refuses the request, and says how long to wait. */
  retryAfterSeconds: z.number().optional(),
});

/** Orders to the simulated model in a user's message. */
export type Order = z.infer<typeof orderSchema>;

const MARK = '\nORDER ';
const CHUNK_CHARS = 1_000;

/** A message with an order to the model. */
export const withOrder = (text: string, order: Order): string => `${text}${MARK}${JSON.stringify(order)}`;

/** The model follows the order in the user's last message. Without an order it answers at once. */
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
