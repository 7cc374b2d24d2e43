import { createRoute, z } from '@hono/zod-openapi';
import { JOB_KINDS, type JobKind } from '../../domain/run/job.ts';
import { within } from '../../platform/within.ts';
import type { WorkersByKind } from '../../store/work/workers.ts';
import { jsonOf, OTHER_HOST } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export const readinessBody = z
  .object({
    ready: z.boolean(),
    checks: z.record(z.string(), z.object({ ok: z.boolean(), message: z.string().optional() })),
    unattended: z.array(z.enum(JOB_KINDS)).optional().openapi({
      description: 'Kinds of jobs that no worker takes at the moment: what is accepted waits. Told by the API alone.',
    }),
  })
  .openapi('Readiness');

const livez = createRoute({
  method: 'get',
  path: '/livez',
  operationId: 'getLiveness',
  tags: ['health'],
  security: [],
  summary: 'The process answers, and can work',
  responses: {
    200: jsonOf(z.object({ status: z.literal('ok') }), 'It does.'),
    503: jsonOf(
      z.object({ status: z.literal('stuck'), reason: z.string() }),
      'It has failed at its work for 30 s although its stores answer others: start it again.',
    ),
    ...OTHER_HOST,
  },
});

const readyz = createRoute({
  method: 'get',
  path: '/readyz',
  operationId: 'getReadiness',
  tags: ['health'],
  security: [],
  summary: 'Everything that requests need answers',
  responses: {
    200: jsonOf(readinessBody, 'Send requests.'),
    503: jsonOf(readinessBody, 'Do not: the checks say why.'),
    ...OTHER_HOST,
  },
});

export function registerHealthRoutes(
  app: BatonApp,
  { readiness, countWorkers, watch }: Pick<HttpDeps, 'readiness' | 'countWorkers' | 'watch'>,
): void {
  app.openapi(livez, async (c) => {
    const reason = (await watch?.whyStuck()) ?? null;
    return reason === null ? c.json({ status: 'ok' as const }, 200) : c.json({ status: 'stuck' as const, reason }, 503);
  });

  app.openapi(readyz, async (c) => {
    const { ready, checks } = await readiness();
    const unattended = ready && countWorkers !== undefined ? await findUnattended(countWorkers) : null;
    return c.json({ ready, checks: { ...checks }, ...(unattended !== null && { unattended }) }, ready ? 200 : 503);
  });
}

const PATIENCE_MS = 1_000;

/** Kinds of job without a worker. Null: the database does not answer; the API is ready for messages all the same. */
async function findUnattended(countWorkers: () => Promise<WorkersByKind>): Promise<JobKind[] | null> {
  try {
    const counts = await within(PATIENCE_MS, countWorkers());
    return JOB_KINDS.filter((kind) => counts[kind] === 0);
  } catch {
    return null;
  }
}
