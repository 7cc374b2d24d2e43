import type { AgentSet } from '../../src/agents/agent.ts';
import { createCatalogue, readAgents } from '../../src/agents/load-agents.ts';

/** The agents of a folder as they are now. Their tools are not loaded. @throws as `readAgents` */
export function loadAgents(folder: string, model?: string): AgentSet {
  return createCatalogue(readAgents(folder, model).map(({ agent }) => agent));
}
