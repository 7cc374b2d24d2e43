import { BatonError } from '../domain/errors.ts';
import type { Agent, AgentSet } from './agent.ts';
import { childNamesOf } from './child-agents.ts';

/**
 * The agent of those who name none: the one that the configuration names, else the one that says so of itself, else the
 * only one that is no child of another. Null: there is no such agent, or several.
 * @param configured may be unknown: only a request that needs it finds out
 */
export function defaultAgentOf(agents: AgentSet, configured: string | undefined): string | null {
  if (configured !== undefined) return configured;
  const all = agents.names().map((name) => agents.get(name));
  const chosen = all.find((agent) => agent.default === true);
  if (chosen !== undefined) return chosen.name;
  const children = new Set(all.flatMap(childNamesOf));
  const [only, ...others] = all.filter(({ name }) => !children.has(name));
  return only === undefined || others.length > 0 ? null : only.name;
}

/** @throws BatonError `config_invalid` if two agents say that they are the default */
export function checkDefault(agent: Agent, agents: AgentSet): void {
  if (agent.default !== true) return;
  const other = agents.names().find((name) => name !== agent.name && agents.get(name).default === true);
  if (other === undefined) return;
  throw new BatonError('config_invalid', `default: ${other} is the default, too: only one agent may be`);
}
