import { createRoute, z } from '@hono/zod-openapi';
import { MAX_BODY_BYTES } from '../domain/tunables.ts';
import { modelField, overridesBody } from './agent-overrides.ts';
import { limitBody } from './body-limit.ts';
import { idParams, noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from './responses.ts';
import { sessionBody } from './session-body.ts';

export const switchAgentRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/agent',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'switchAgent',
  tags: ['sessions'],
  summary: 'Give a session another agent or another model',
  description:
    'Holds from the next step on, also while a run is at work. The transcript stays, and reasoning goes back only to the model that wrote it. A model alone keeps the agent and its overrides. An agent drops the overrides of the one before, even if it is the same agent, and may bring its own. A request for the present agent and model changes nothing.',
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
