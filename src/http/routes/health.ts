import { createRoute, z } from '@hono/zod-openapi';
import type { BatonApp, HttpDeps } from '../http-deps.ts';
import { jsonOf } from '../responses.ts';

const readinessBody = z
  .object({
    ready: z.boolean(),
    checks: z.record(z.string(), z.object({ ok: z.boolean(), message: z.string().optional() })),
  })
  .openapi('Readiness');

const livez = createRoute({
  method: 'get',
  path: '/livez',
  tags: ['health'],
  security: [],
  summary: 'The process answers',
  responses: { 200: jsonOf(z.object({ status: z.literal('ok') }), 'It does.') },
});

const readyz = createRoute({
  method: 'get',
  path: '/readyz',
  tags: ['health'],
  security: [],
  summary: 'Everything that requests need answers',
  responses: {
    200: jsonOf(readinessBody, 'Send requests.'),
    503: jsonOf(readinessBody, 'Do not: the checks say why.'),
  },
});

/** For load balancers and supervisors. */
export function registerHealthRoutes(app: BatonApp, { readiness }: Pick<HttpDeps, 'readiness'>): void {
  app.openapi(livez, (c) => c.json({ status: 'ok' as const }, 200));

  app.openapi(readyz, async (c) => {
    const { ready, checks } = await readiness();
    return c.json({ ready, checks: { ...checks } }, ready ? 200 : 503);
  });
}
