import { createRoute, z } from '@hono/zod-openapi';
import { type Agent, type AgentSet, agentVersion, readAgent } from '../../agents/agent.ts';
import { withOverrides } from '../../agents/overrides.ts';
import { MAX_BODY_BYTES } from '../../domain/tunables.ts';
import { refuseForeignModel, refuseUnusableModels } from '../../model/configured-models.ts';
import { type CurrentAgent, type KeptAgent, switchAgent } from '../../store/changes/switch-agent.ts';
import { checkModel, modelField, overridesBody } from '../bodies/agent-overrides.ts';
import { idParams, noQuery, textField } from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from '../bodies/responses.ts';
import { sessionBody, toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

const change = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/agent',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'switchAgent',
  tags: ['sessions'],
  summary: 'Give a session another agent or another model',
  description:
    'From its next step on, also while a run is at work: the transcript stays, and reasoning goes back only to the model that wrote it. A model alone leaves the agent as it is, with its overrides. An agent comes without those of the one before, also where it is the same one; it may bring its own. What the session has already changes nothing.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(
      z
        .strictObject({
          agent: textField(64).min(1).optional(),
          model: modelField.optional(),
          overrides: overridesBody.optional(),
        })
        .refine(({ agent, model }) => agent !== undefined || model !== undefined, {
          error: 'needs agent or model, or both',
        })
        .refine(({ agent, overrides }) => agent !== undefined || overrides === undefined, {
          error: 'goes with agent',
          path: ['overrides'],
        })
        .refine(({ model, overrides }) => model === undefined || overrides?.model === undefined, {
          error: 'the model is named once',
          path: ['overrides', 'model'],
        })
        .openapi('AgentSwitch', { example: { agent: 'workspace' } }),
    ),
  },
  responses: {
    200: jsonOf(sessionBody, 'The session with its new agent.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

/** Changes the agent or the model of a session. */
export function registerAgentSwitchRoute(app: BatonApp, deps: HttpDeps): void {
  const { agents, models, pinTools, db, bus } = deps;
  app.openapi(change, async (c) => {
    const { agent: name, model, overrides } = c.req.valid('json');
    const { id: sessionId } = c.req.valid('param');
    const known = await agents.current();
    const named = name === undefined ? null : known.get(name);
    const definition = named === null ? null : withOverrides(named, { model, ...overrides });
    // Refuses a bad model now rather than in the next step.
    if (named !== null && definition !== null) {
      refuseForeignModel(named, known, definition.model);
      refuseUnusableModels(definition, known, deps.modelCheck);
    }
    checkModel(models, definition?.model ?? model ?? '', overrides);
    // Before the transaction, which must not wait for an MCP server.
    const pinned = definition === null ? null : pinTools(definition, untilGone(c));
    await Promise.allSettled([pinned]);
    const asked = { route: change, request: { sessionId, name, model, overrides }, answer: sessionBody };
    let eventSeq: number | null = null;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const snapshot = await pinned;
      const next = (current: CurrentAgent): KeptAgent =>
        definition === null || snapshot === null
          ? keep(withModel(deps, known, readAgent(current.snapshot), model), { ...current.overrides, model })
          : {
              name: definition.name,
              version: agentVersion(definition),
              snapshot,
              overrides: { ...(model !== undefined && { model }), ...overrides },
            };
      const switched = await switchAgent(tx, { tenantId: tenantOf(c), sessionId }, next);
      eventSeq = switched.eventSeq;
      await auditRequest(tx, c, 'session:agent');
      return toSessionBody(switched.session);
    });
    if (eventSeq !== null) bus.announce(sessionId, eventSeq);
    return c.json(body, 200, headers);
  });
}

/** A session's agent with another model: one that the current agent of that name allows. */
function withModel(deps: HttpDeps, known: AgentSet, snapshot: Agent, model = snapshot.model): Agent {
  const taker = known.names().includes(snapshot.name) ? known.get(snapshot.name) : snapshot;
  refuseForeignModel(taker, known, model);
  const agent = withOverrides(snapshot, { model });
  refuseUnusableModels(agent, known, deps.modelCheck);
  return agent;
}

/** Keeps the tools that were pinned when the session got the agent. They do not count towards its version. */
function keep(snapshot: Agent, overrides: KeptAgent['overrides']): KeptAgent {
  const { pinnedTools: _, ...definition } = snapshot;
  return { name: snapshot.name, version: agentVersion(definition), snapshot, overrides };
}
