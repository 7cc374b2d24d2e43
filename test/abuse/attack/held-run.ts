import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { withOrder } from '../world/model.ts';
import type { Attacker } from './attacker.ts';

const gatesSchema = z.object({ gates: z.array(z.object({ name: z.string(), reached: z.boolean() })) });

/** Starts a run whose model does not answer until the gate is released. */
export async function holdRun(attacker: Attacker, gate: string): Promise<Readonly<{ session: string; run: string }>> {
  const session = await attacker.createSession();
  const first = await attacker.send(session, withOrder('Begin.', { hold: gate }));
  if (first === null) throw new Error('the first message was refused');
  for (;;) {
    const response = await fetch(`${attacker.target.simulatorUrl}/__simulator/gates`);
    const { gates } = gatesSchema.parse(await response.json());
    if (gates.some(({ name, reached }) => name === gate && reached)) return { session, run: first.runId };
    await delay(20);
  }
}

/** Lets the model answer. */
export async function release(attacker: Attacker, gate: string): Promise<void> {
  await fetch(`${attacker.target.simulatorUrl}/__simulator/release`, {
    method: 'POST',
    body: JSON.stringify({ gate }),
  });
}
