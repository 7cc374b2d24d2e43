import type { Agent, AgentSet } from '../agents/agent.ts';
import { refuseUnpriced } from '../agents/cost-limit.ts';
import type { ModelPrices } from '../domain/context/limits/model-entry.ts';
import { SAME_MODEL, summarizingAgent } from '../domain/context/limits/policy.ts';
import { BatonError } from '../domain/errors.ts';
import type { PricesOf } from './describe-model.ts';
import type { ModelPort } from './model-port.ts';

/** The lookups for the models of an agent. */
export type ModelCheck = Readonly<{
  models: ModelPort;
  pricesOf: PricesOf;
  /** Tenants have a cost quota, towards which a model without prices could not count. */
  hasCostQuota: boolean;
}>;

/** The models that an agent asks: its own with its fallbacks, and its summarizer's if that is another one. */
export function modelsOf(agent: Agent, agents: AgentSet): readonly string[] {
  const name = summarizingAgent(agent.context);
  const { model } = agent.context.compaction;
  const own = [agent.model, ...(agent.fallbacks ?? [])];
  if (name === null) return model === SAME_MODEL ? own : [...own, model];
  // A summarizer that is gone is reported when it is asked for.
  return agents.names().includes(name) ? [...own, agents.get(name).model] : own;
}

/** Finds errors of a later step or summary now. @throws BatonError `model_unavailable`, `price_unknown` */
export function refuseUnusableModels(agent: Agent, agents: AgentSet, check: ModelCheck): void {
  for (const model of modelsOf(agent, agents)) check.models(model);
  refuseUnpricedModels(agent, agents, check);
}

/** A model whose provider is not configured is not checked. @throws BatonError `price_unknown` */
function refuseUnpricedModels(agent: Agent, agents: AgentSet, check: ModelCheck): void {
  const { hasCostQuota } = check;
  const { maxCostUsd } = agent.limits;
  if (maxCostUsd === undefined && !hasCostQuota) return;
  for (const model of modelsOf(agent, agents)) {
    refuseUnpriced(model, pricesIfConfigured(model, check), { maxCostUsd, hasCostQuota });
  }
}

/** The same when an agent is loaded. @throws BatonError `config_invalid` whose message begins with the key */
export function checkPrices(agent: Agent, agents: AgentSet, check: ModelCheck): void {
  try {
    refuseUnpricedModels(agent, agents, check);
  } catch (error) {
    if (!(error instanceof BatonError && error.code === 'price_unknown')) throw error;
    const key = agent.limits.maxCostUsd === undefined ? 'model' : 'limits.maxCostUsd';
    throw new BatonError('config_invalid', `${key}: ${error.message}`, { cause: error });
  }
}

function pricesIfConfigured(model: string, { models, pricesOf }: ModelCheck): ModelPrices | null | undefined {
  try {
    return pricesOf(models(model));
  } catch (error) {
    if (error instanceof BatonError && error.code === 'model_unavailable') return undefined;
    throw error;
  }
}

/** Allowed: the agent's own model, its summarizer's, those under `models`. @throws BatonError `model_not_allowed` */
export function refuseForeignModel(agent: Agent, agents: AgentSet, model: string): void {
  const allowed = [...new Set([...modelsOf(agent, agents), ...agent.models])];
  if (allowed.some((name) => standsFor(name, model))) return;
  const detail = `sessions of agent ${agent.name} take no model ${model}, but ${allowed.join(', ')}; its file may name others under models`;
  throw new BatonError('model_not_allowed', detail);
}

const standsFor = (name: string, model: string): boolean =>
  name.endsWith('*') ? model.startsWith(name.slice(0, -1)) : name === model;
