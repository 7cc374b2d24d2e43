import type { Agent } from '../agents/agent.ts';
import { contextMeterOf, knownModel, offeredTools } from '../claims/context-meter.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import type { HttpDeps } from './http-deps.ts';

type Shown = Readonly<{ tenantId: string; agent: Agent; view: readonly ViewMessage[]; contextState: ContextState }>;

/** Tokens of the request with this view, as everything that acts on the context counts them. */
export async function measureRequest(deps: HttpDeps, { tenantId, agent, view, contextState }: Shown): Promise<number> {
  const model = await knownModel(deps, deps.models(agent.model), tenantId);
  const meter = await contextMeterOf(agent, model, await offeredTools(deps, agent, model, view));
  return meter.measure(view, contextState).total;
}
