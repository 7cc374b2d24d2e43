import type { z } from '@hono/zod-openapi';
import { type Agent, agentVersion } from '../agents/agent.ts';
import { withOverrides } from '../agents/overrides.ts';
import type { newSessionBody } from '../api/sessions.ts';
import { refuseForeignModel, refuseUnusableModels } from '../model/configured-models.ts';
import type { NewSession } from '../store/session/sessions.ts';
import { checkModel } from './bodies/agent-overrides.ts';
import type { HttpDeps } from './http-deps.ts';

type NewSessionDeps = Pick<HttpDeps, 'agents' | 'models' | 'modelCheck' | 'newId'>;

/**
 * A new session as a caller describes it, not yet stored.
 * @param pin the agent as the session keeps it, with the tools of its MCP servers, for which no transaction may wait
 * @throws BatonError `agent_not_found`, `model_unavailable`, `tools_unavailable`; ProblemError `invalid_request`
 */
export async function newSessionOf(
  deps: NewSessionDeps,
  tenantId: string,
  body: z.output<typeof newSessionBody>,
  pin: (agent: Agent) => Promise<unknown>,
): Promise<NewSession> {
  const agentSet = await deps.agents.current();
  const definition = agentSet.get(body.agent);
  const agent = withOverrides(definition, body.overrides ?? {});
  const pinned = pin(agent);
  await Promise.allSettled([pinned]);
  refuseForeignModel(definition, agentSet, agent.model);
  refuseUnusableModels(agent, agentSet, deps.modelCheck);
  checkModel(deps.models, agent.model, body.overrides);
  return {
    id: deps.newId(),
    tenantId,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await pinned,
    overrides: body.overrides ?? {},
    title: body.title ?? null,
    metadata: body.metadata ?? {},
    expiresAt: toTime(body.expiresAt ?? null),
    ...(body.key !== undefined && { externalKey: body.key }),
  };
}

/** An ISO time. */
export const toTime = (text: string | null): Date | null => (text === null ? null : new Date(text));
