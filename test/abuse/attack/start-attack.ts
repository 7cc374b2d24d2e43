import { startAsked } from '../../../bench/process/asked.ts';
import type { Outcome, Target } from './attack.ts';

export type AttackOrder = Readonly<{ row: string; target: Target }>;

export type AttackProcess = AsyncDisposable & Readonly<{ strike: (order: AttackOrder) => Promise<Outcome> }>;

/** Starts a process that attacks when it is told to. */
export async function startAttack(): Promise<AttackProcess> {
  const process = await startAsked<AttackOrder, Outcome>(new URL('attack-process.ts', import.meta.url));
  return { strike: process.ask, [Symbol.asyncDispose]: () => process[Symbol.asyncDispose]() };
}
