import { createRoute, z } from '@hono/zod-openapi';
import { TOKEN_ALLOWANCES } from '../domain/access.ts';
import { idParams, noQuery } from './fields.ts';
import { jsonBody } from './json-body.ts';
import { limitsBody } from './limits-body.ts';
import { BODY_REFUSED, jsonOf, NOT_FOUND, REFUSED, timeBody } from './responses.ts';

const DEFAULT_S = 900;

const MAX_S = 86_400;

const tokenFields = z.strictObject({
  access: z
    .enum(['read', 'write'])
    .default('read')
    .openapi({ description: 'Scope of the token. `write` may also read.' }),
  limits: limitsBody.optional().openapi({
    description:
      'Limits of each run that the token’s holder starts, in place of the agent’s. The holder may only lower them.',
  }),
  allow: z.array(z.enum(TOKEN_ALLOWANCES)).max(TOKEN_ALLOWANCES.length).default([]).openapi({
    description: 'Fields that the token’s holder may name in a message. Default: none.',
  }),
  expiresInSeconds: z.int().min(1).max(MAX_S, `at most ${MAX_S} (a day)`).default(DEFAULT_S),
});

export const createSessionTokenRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/tokens',
  operationId: 'createSessionToken',
  tags: ['sessions'],
  summary: 'Make a token that opens one session for a while',
  description:
    'Serves browsers, which must not have a key. With `Authorization: Bearer batontoken_…` the holder reads the session, its events and runs; with `write` also sends, answers and cancels, here and by `/api/chat`. Messages of the holder may lower the limits of a run and never raise them. The token ends at its expiry, and with the key that made it.',
  request: { params: idParams('session'), query: noQuery, body: jsonBody(tokenFields) },
  responses: {
    201: jsonOf(z.object({ token: z.string(), access: z.enum(['read', 'write']), expiresAt: timeBody }), 'The token.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
  },
});
