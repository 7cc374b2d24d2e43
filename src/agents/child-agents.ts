import { didYouMean } from '../domain/did-you-mean.ts';
import { BatonError } from '../domain/errors.ts';
import type { Agent, AgentSet } from './agent.ts';

type Child = Readonly<{ agent: string; key: string }>;

const childrenOf = ({ tools }: Pick<Agent, 'tools'>): Child[] =>
  tools.flatMap((source, index) =>
    typeof source === 'string' || source.agent === undefined
      ? []
      : [{ agent: source.agent, key: `tools.${index}.agent` }],
  );

/** The agents to which an agent gives tasks. */
export const childNamesOf = (agent: Pick<Agent, 'tools'>): string[] => childrenOf(agent).map((child) => child.agent);

/**
 * Finds agents to which an agent may give no task: one that does not exist, the agent itself, and one that would give
 * tasks back to it.
 * @throws BatonError `config_invalid` whose message begins with the key
 */
export function checkChildren(agent: Agent, agents: AgentSet): void {
  for (const { agent: name, key } of childrenOf(agent)) {
    if (name === agent.name) throw new BatonError('config_invalid', `${key}: an agent cannot be its own child`);
    if (!agents.names().includes(name)) {
      const which = didYouMean(name, agents.names()) || `; known: ${agents.names().join(', ')}`;
      throw new BatonError('config_invalid', `${key}: there is no agent named ${name}${which}`);
    }
    const way = wayTo(agent.name, name, agents);
    if (way !== null) throw new BatonError('config_invalid', `${key}: the agents make a circle: ${way.join(' → ')}`);
  }
}

/** The agents by which tasks would come back to `goal`, beginning with it. Null: none do. */
function wayTo(goal: string, child: string, agents: AgentSet): readonly string[] | null {
  const ways = new Map<string, readonly string[]>([[child, [goal, child]]]);
  for (const [name, way] of ways) {
    if (!agents.names().includes(name)) continue;
    for (const { agent } of childrenOf(agents.get(name))) {
      if (agent === goal) return [...way, goal];
      if (!ways.has(agent)) ways.set(agent, [...way, agent]);
    }
  }
  return null;
}
