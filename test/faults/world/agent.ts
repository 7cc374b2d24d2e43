import { fileURLToPath } from 'node:url';
import { type ProfileName, simulatedProvider } from '../../../simulator/profiles.ts';
import type { Fault } from '../fault.ts';

/** Traits of an agent of the suite, beside its tools. */
export type AgentTraits = Readonly<{
  /** Its answers are made in the background. */
  inBackground?: boolean;
  /** Tools whose calls people have to approve. */
  approvals?: readonly string[];
  /** A tool that the client runs. */
  clientTool?: string;
  /** Levels of agents below it, each of which gives tasks to the next one. */
  helpers?: number;
  /** Number of calls of one helper that work at a time in a session. */
  maxParallel?: number;
  /** Size of its context in tokens, and the way in which it is kept within that size. */
  context?: Readonly<Record<string, unknown>>;
}>;

const LEDGER_TOOLS = fileURLToPath(new URL('../ledger-tools.ts', import.meta.url));

/** Start of the names of the agents that get tasks from other agents. The number of the level follows. */
export const HELPER = 'helper-';
/** Further calls wait until one of these has ended. */
const MAX_PARALLEL = 2;

/** The definitions of the agent `faulty` and of those below it, by their names. */
export function agentFiles(
  fault: Pick<Fault, 'maxSteps' | 'agent'>,
  profile?: ProfileName,
): Readonly<Record<string, string>> {
  const levels = fault.agent?.helpers ?? 0;
  const names = ['faulty', ...Array.from({ length: levels }, (_, no) => `${HELPER}${no + 1}`)];
  return Object.fromEntries(names.map((name, no) => [name, agentFile(fault, profile, name, names[no + 1])]));
}

/** JSON is YAML. */
function agentFile(
  { maxSteps, agent = {} }: Pick<Fault, 'maxSteps' | 'agent'>,
  profile: ProfileName | undefined,
  name: string,
  helper?: string,
): string {
  const { approvals = [], clientTool, context, maxParallel = MAX_PARALLEL, inBackground = false } = agent;
  const provider = profile === undefined ? 'simulated' : simulatedProvider(profile);
  const limits = maxSteps === undefined ? { maxSteps: 1_000 } : { maxSteps, finalAnswer: true };
  const inputSchema = { type: 'object', properties: { token: { type: 'string' } }, required: ['token'] };
  return JSON.stringify({
    name,
    model: `${inBackground ? 'simulated-background' : provider}/faulty`,
    instructions: 'Leave traces.',
    tools: [
      { module: LEDGER_TOOLS },
      ...(clientTool === undefined ? [] : [{ client: { name: clientTool, description: 'Asks people.', inputSchema } }]),
      ...(helper === undefined ? [] : [{ agent: helper, maxParallel }]),
    ],
    approvals,
    // A call that waits for others is marked as running in a write of its own. The first ones are marked with their
    // response.
    limits: { ...limits, toolConcurrency: 2 },
    ...(context !== undefined && { context }),
  });
}
