import { z } from 'zod';
import { type Order, withOrder } from '../world/model.ts';
import type { Attacker } from './attacker.ts';

type Call = Readonly<{ name: string; input: Record<string, unknown> }>;

/** A call of a run, as the transcript has it. */
export type CallResult = Readonly<{ name: string; input: Readonly<Record<string, unknown>>; output: string }>;

const partSchema = z.looseObject({
  type: z.string(),
  toolName: z.string().optional(),
  input: z.record(z.string(), z.unknown()).optional(),
  output: z.unknown().optional(),
});
const pageSchema = z.object({ messages: z.array(z.object({ parts: z.array(partSchema) })) });

const ENDS_WITHIN_MS = 20_000;

/** Has an agent make calls, round by round, in a new session. @returns their outputs; empty if the message was refused */
export async function callTools(
  attacker: Attacker,
  agent: string,
  rounds: readonly (readonly Call[])[],
): Promise<CallResult[]> {
  const session = await attacker.createSession(agent);
  const order: Order = { rounds: rounds.map((round) => [...round]) };
  const accepted = await attacker.send(session, withOrder('Do this.', order));
  if (accepted === null) return [];
  if ((await attacker.ended(accepted.runId, ENDS_WITHIN_MS)) === null) {
    // The call requires an approval, which this attack does not give.
    attacker.count('runs that wait for an approval');
    await attacker.ask(`/v1/runs/${accepted.runId}/cancel`, { body: {} });
  }
  const { text } = await attacker.ask(`/v1/sessions/${session}/messages?limit=200`);
  const { messages } = pageSchema.parse(JSON.parse(text));
  return messages
    .flatMap(({ parts }) => parts)
    .flatMap(({ type, toolName = '', input = {}, output }) =>
      type === 'tool' ? [{ name: toolName, input, output: textOf(output) }] : [],
    );
}

function textOf(output: unknown): string {
  const named = z.looseObject({ value: z.unknown().optional() }).safeParse(output);
  const value = named.success ? named.data.value : output;
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}
