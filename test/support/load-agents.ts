import type { AgentSet } from '../../src/agents/agent.ts';
import { createCatalogue, readAgents } from '../../src/agents/load-agents.ts';

/** The agents of a folder as they are now, whatever becomes of their tools. @throws as `readAgents` */
export function loadAgents(folder: string, model?: string): AgentSet {
  return createCatalogue(readAgents(folder, model).map(({ agent }) => agent));
}
