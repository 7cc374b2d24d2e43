import { type Agent, agentVersion } from '../../agents/agent.ts';
import { defaultAgentOf } from '../../agents/default-agent.ts';
import { listAgentsRoute } from '../../api/agents.ts';
import { thresholdPercentsOf } from '../../domain/context/meter/context-meter.ts';
import { BatonError } from '../../domain/errors.ts';
import { refuseUnusableModels } from '../../model/configured-models.ts';
import { toolNamesForModel } from '../../tools/names-for-model.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export function registerAgentRoutes(app: BatonApp, deps: HttpDeps): void {
  const { agents, toolsOf, modelCheck } = deps;
  app.openapi(listAgentsRoute, async (c) => {
    const agentSet = await agents.current();
    const defaultName = defaultAgentOf(agentSet, deps.defaultAgent);
    const all = agentSet.names().map(async (name) => {
      const agent = agentSet.get(name);
      const { description = null, model, models, fallbacks = [] } = agent;
      const problems: string[] = [];
      const tools = await toolNamesForModel(toolsOf, agent).catch((error: unknown) => {
        problems.push(wordsOf(error));
        return [];
      });
      try {
        refuseUnusableModels(agent, agentSet, modelCheck);
      } catch (error) {
        problems.push(wordsOf(error));
      }
      const isDefault = name === defaultName;
      const leftOutTools = [...((await deps.leftOutTools?.(agent)) ?? [])];
      const version = agentVersion(agent);
      const context = contextOf(agent);
      return {
        name,
        version,
        description,
        isDefault,
        model,
        fallbacks,
        models,
        tools,
        leftOutTools,
        context,
        problems,
      };
    });
    const { scopes } = c.get('caller');
    const mayReadFiles = scopes.includes('admin') || scopes.includes('operator');
    const rejected = (agents.rejected?.() ?? []).map(({ file, keys, message }) => ({
      file,
      keys: [...keys],
      problem: mayReadFiles ? message : null,
    }));
    return c.json({ agents: await Promise.all(all), rejected }, 200);
  });
}

function contextOf({ context }: Agent) {
  const { strategy, model: summarizer } = context.compaction;
  return { strategy, summarizer, ...thresholdPercentsOf(context) };
}

/** Callers read only the message of a BatonError. Any other error may hold facts that are not meant for them. */
const wordsOf = (error: unknown): string =>
  error instanceof BatonError ? error.message : 'Its tools cannot be listed: the log of the service says why';
