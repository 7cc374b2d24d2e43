import { createRoute, z } from '@hono/zod-openapi';
import { DEFAULT_HOOK_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { acceptedBody } from './messages.ts';
import { CONFLICT, FORM_REFUSED, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

const pongBody = z.object({ pong: z.literal(true) });

export const takeHookRoute = createRoute({
  method: 'post',
  path: '/v1/hooks/{name}',
  middleware: limitBody(DEFAULT_HOOK_BODY_BYTES, 'bytes'),
  operationId: 'takeHook',
  tags: ['webhooks'],
  security: [],
  summary: 'Take a signed request of another service as a message',
  description:
    'Serves the hooks of the file of `BATON_HOOKS_FILE`. Needs no key, because the signature of the sender is checked. A request that the sender repeats adds no message.',
  request: { params: z.object({ name: z.string().max(64) }) },
  responses: {
    200: jsonOf(pongBody, 'GitHub asked with a `ping` whether the hook works. The hook works, and no run was begun.'),
    202: jsonOf(acceptedBody, 'The message is stored and will be worked on.'),
    ...REFUSED,
    ...FORM_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
