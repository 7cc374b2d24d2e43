import { type Agent, type AgentCatalogue, agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import type { ModelPort } from '../../src/step/model-port.ts';
import { createChainModel } from './model.ts';

/** The model of the default agents: its tokens are counted exactly, which costs the most. */
const MODEL = 'openai/gpt-5.4-mini';

export const CHAIN_AGENT: Agent = agentSchema.parse({
  name: 'chain',
  model: MODEL,
  tools: ['chain'],
  limits: { maxSteps: 10_000 },
});

export const CHAIN_CATALOGUE: AgentCatalogue = createCatalogue([CHAIN_AGENT]);

/** The chain's model under every name. */
export function chainModels(): ModelPort {
  const model = createChainModel();
  return (name) => ({
    model,
    provider: 'openai',
    modelId: name.slice(name.indexOf('/') + 1),
    protocol: 'openai-responses',
    endpoint: 'bench',
    providerOptions: () => ({}),
  });
}
