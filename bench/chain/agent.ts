import { type Agent, type AgentCatalogue, agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import type { ModelPort } from '../../src/model/model-port.ts';
import { createChainModel } from './model.ts';

/** The model of the default agents. Its tokens are counted exactly, which takes the most CPU. */
export const CHAIN_MODEL = 'openai/gpt-5.4-mini';

export const CHAIN_AGENT: Agent = agentSchema.parse({
  name: 'chain',
  model: CHAIN_MODEL,
  tools: ['chain'],
  limits: { maxSteps: 10_000 },
});

export const CHAIN_CATALOGUE: AgentCatalogue = createCatalogue([CHAIN_AGENT]);

/** The chain's model under every name. @param onPaced see `createChainModel` */
export function chainModels(onPaced?: (stretch: number) => void): ModelPort {
  const model = createChainModel(onPaced);
  return (name) => ({
    model,
    provider: 'openai',
    modelId: name.slice(name.indexOf('/') + 1),
    protocol: 'openai-responses',
    endpoint: 'bench',
    credential: 'bench',
    providerOptions: () => ({}),
  });
}
