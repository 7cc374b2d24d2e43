import { fileURLToPath } from 'node:url';
import type { Fault } from '../fault.ts';

/** What an agent of the suite may have and do beside its tools. */
export type AgentTraits = Readonly<{
  /** Tools that somebody has to approve. */
  approvals?: readonly string[];
  /** A tool that the client runs. */
  clientTool?: string;
  /** Tokens of its context, and how it is kept within them. */
  context?: Readonly<Record<string, unknown>>;
}>;

const LEDGER_TOOLS = fileURLToPath(new URL('../ledger-tools.ts', import.meta.url));

/** The definition of the agent `faulty`: JSON is YAML. */
export function agentFile({ maxSteps, agent = {} }: Pick<Fault, 'maxSteps' | 'agent'>): string {
  const { approvals = [], clientTool, context } = agent;
  const limits = maxSteps === undefined ? { maxSteps: 1_000 } : { maxSteps, finalAnswer: true };
  const inputSchema = { type: 'object', properties: { token: { type: 'string' } }, required: ['token'] };
  return JSON.stringify({
    name: 'faulty',
    model: 'simulated/faulty',
    instructions: 'Leave traces.',
    tools: [
      { module: LEDGER_TOOLS },
      ...(clientTool === undefined ? [] : [{ client: { name: clientTool, description: 'Asks people.', inputSchema } }]),
    ],
    approvals,
    // Calls that wait for others are marked as running by themselves, the first ones with their response.
    limits: { ...limits, toolConcurrency: 2 },
    ...(context !== undefined && { context }),
  });
}
