import type { AgentSet } from '../../src/agents/agent.ts';
import { createCatalogue, nameErrors, readAgentFiles, throwTogether } from '../../src/agents/load-agents.ts';

/** The agents of a folder as they are now. Their tools are not loaded. @throws BatonError `config_invalid` */
export function loadAgents(folder: string, model?: string): AgentSet {
  const { read, errors } = readAgentFiles(folder, model);
  throwTogether(errors);
  throwTogether(nameErrors(read));
  return createCatalogue(read.map(({ agent }) => agent));
}
