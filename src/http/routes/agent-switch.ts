import { type Agent, type AgentSet, agentVersion, readAgent } from '../../agents/agent.ts';
import { withOverrides } from '../../agents/overrides.ts';
import { switchAgentRoute } from '../../api/agent-switch.ts';
import { sessionBody } from '../../api/session-body.ts';
import { afterEvent } from '../../commands/after-commit.ts';
import { type AgentNext, type AgentNow, switchAgentIn } from '../../commands/switch-agent.ts';
import { refuseForeignModel, refuseUnusableModels } from '../../model/configured-models.ts';
import { checkModel } from '../bodies/agent-overrides.ts';
import { toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

/** Changes the agent or the model of a session. */
export function registerAgentSwitchRoute(app: BatonApp, deps: HttpDeps): void {
  const { agents, models, pinTools, db } = deps;
  app.openapi(switchAgentRoute, async (c) => {
    const { agent: name, model, overrides } = c.req.valid('json');
    const { id: sessionId } = c.req.valid('param');
    const agentSet = await agents.current();
    const named = name === undefined ? null : agentSet.get(name);
    const definition = named === null ? null : withOverrides(named, { model, ...overrides });
    // Refuses a bad model now rather than in the next step.
    if (named !== null && definition !== null) {
      refuseForeignModel(named, agentSet, definition.model);
      refuseUnusableModels(definition, agentSet, deps.modelCheck);
    }
    checkModel(models, definition?.model ?? model ?? '', overrides);
    // Before the transaction, which must not wait for an MCP server.
    const pinned = definition === null ? null : pinTools(definition, untilGone(c));
    await Promise.allSettled([pinned]);
    const submission = { route: switchAgentRoute, request: { sessionId, name, model, overrides }, answer: sessionBody };
    let switched: Readonly<{ eventSeq: number | null }> = { eventSeq: null };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const snapshot = await pinned;
      const next = (current: AgentNow): AgentNext =>
        definition === null || snapshot === null
          ? keep(withModel(deps, agentSet, readAgent(current.snapshot), model), { ...current.overrides, model })
          : {
              name: definition.name,
              version: agentVersion(definition),
              snapshot,
              overrides: { ...(model !== undefined && { model }), ...overrides },
            };
      const { session, eventSeq } = await switchAgentIn(tx, { actor: c.get('caller'), sessionId }, next);
      switched = { eventSeq };
      return toSessionBody(session);
    });
    afterEvent(deps, sessionId, switched);
    return c.json(body, 200, headers);
  });
}

/** A session's agent with another model: one that the current agent of that name allows. */
function withModel(deps: HttpDeps, agentSet: AgentSet, snapshot: Agent, model = snapshot.model): Agent {
  const taker = agentSet.names().includes(snapshot.name) ? agentSet.get(snapshot.name) : snapshot;
  refuseForeignModel(taker, agentSet, model);
  const agent = withOverrides(snapshot, { model });
  refuseUnusableModels(agent, agentSet, deps.modelCheck);
  return agent;
}

/** Keeps the tools that were pinned when the session got the agent. They do not count towards its version. */
function keep(snapshot: Agent, overrides: AgentNext['overrides']): AgentNext {
  const { pinnedTools: _, ...definition } = snapshot;
  return { name: snapshot.name, version: agentVersion(definition), snapshot, overrides };
}
