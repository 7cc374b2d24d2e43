import { SAME_MODEL, summarizingAgent } from '../domain/context/policy.ts';
import type { ModelPort } from '../step/model-port.ts';
import type { Agent, AgentSet } from './agent.ts';

/** The models that an agent asks: its own, and the one that summarizes for it where that is another one. */
export function modelsOf(agent: Agent, agents: AgentSet): readonly string[] {
  const name = summarizingAgent(agent.context);
  const { model } = agent.context.compaction;
  if (name === null) return model === SAME_MODEL ? [agent.model] : [agent.model, model];
  // One that is gone is told of where it is asked for.
  return agents.names().includes(name) ? [agent.model, agents.get(name).model] : [agent.model];
}

/** Finds out now what would otherwise fail in a step or at the first summary. @throws BatonError `model_unavailable` */
export function refuseUnconfigured(agent: Agent, agents: AgentSet, models: ModelPort): void {
  for (const model of modelsOf(agent, agents)) models(model);
}
