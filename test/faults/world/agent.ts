import { fileURLToPath } from 'node:url';
import type { Fault } from '../fault.ts';

/** What an agent of the suite may have and do beside its tools. */
export type AgentTraits = Readonly<{
  /** Its answers are made in the background. */
  inBackground?: boolean;
  /** Tools that somebody has to approve. */
  approvals?: readonly string[];
  /** A tool that the client runs. */
  clientTool?: string;
  /** Levels of agents below it, each of which gives tasks to the next one. */
  helpers?: number;
  /** How many of one tool work at a time in a session. */
  maxParallel?: number;
  /** Tokens of its context, and how it is kept within them. */
  context?: Readonly<Record<string, unknown>>;
}>;

const LEDGER_TOOLS = fileURLToPath(new URL('../ledger-tools.ts', import.meta.url));

/** What the agents are called that others give tasks to: each level has its number behind it. */
export const HELPER = 'helper-';
/** More of them wait for one that has ended. */
const MAX_PARALLEL = 2;

/** The definitions of the agent `faulty` and of those below it, by their names. */
export function agentFiles(fault: Pick<Fault, 'maxSteps' | 'agent'>): Readonly<Record<string, string>> {
  const levels = fault.agent?.helpers ?? 0;
  const names = ['faulty', ...Array.from({ length: levels }, (_, no) => `${HELPER}${no + 1}`)];
  return Object.fromEntries(names.map((name, no) => [name, agentFile(fault, name, names[no + 1])]));
}

/** JSON is YAML. */
function agentFile({ maxSteps, agent = {} }: Pick<Fault, 'maxSteps' | 'agent'>, name: string, helper?: string): string {
  const { approvals = [], clientTool, context, maxParallel = MAX_PARALLEL, inBackground = false } = agent;
  const limits = maxSteps === undefined ? { maxSteps: 1_000 } : { maxSteps, finalAnswer: true };
  const inputSchema = { type: 'object', properties: { token: { type: 'string' } }, required: ['token'] };
  return JSON.stringify({
    name,
    model: `${inBackground ? 'simulated-background' : 'simulated'}/faulty`,
    instructions: 'Leave traces.',
    tools: [
      { module: LEDGER_TOOLS },
      ...(clientTool === undefined ? [] : [{ client: { name: clientTool, description: 'Asks people.', inputSchema } }]),
      ...(helper === undefined ? [] : [{ agent: helper, maxParallel }]),
    ],
    approvals,
    // Calls that wait for others are marked as running by themselves, the first ones with their response.
    limits: { ...limits, toolConcurrency: 2 },
    ...(context !== undefined && { context }),
  });
}
