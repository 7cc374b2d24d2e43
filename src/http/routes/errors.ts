import { createRoute, z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { type FailedRun, type FailureGroup, groupFailures } from '../../domain/run/failure-groups.ts';
import { type FailedRunFilter, readFailedRuns } from '../../store/lists/failed-runs.ts';
import { limitField, textField, timeField } from '../bodies/fields.ts';
import { jsonOf, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const DAY_MS = 86_400_000;
const LONGEST_MS = 30 * DAY_MS;

const group = {
  fingerprint: z.string().openapi({ description: 'The same for the same cause at any time.' }),
  code: z.enum(ERROR_CODES),
  provider: z.string().nullable(),
  model: z.string().nullable().openapi({ description: 'Of the last answer of the run; null: it had none.' }),
  agent: z.string(),
  count: z.int(),
  firstAt: timeBody,
  lastAt: timeBody,
  hours: z.array(z.object({ hour: timeBody, count: z.int() })).openapi({ description: 'In UTC; those with failures.' }),
};
const text = z.string().openapi({ description: 'The message without numbers, ids, addresses and quoted texts.' });
const run = { runId: z.string(), sessionId: z.string(), at: timeBody };
const page = { since: timeBody, complete: z.boolean() };

export const errorGroupsBody = z
  .object({
    ...page,
    groups: z.array(z.object({ ...group, text, newest: z.array(z.object({ ...run, message: z.string() })) })),
  })
  .openapi('ErrorGroups');

export const allErrorGroupsBody = z
  .object({
    ...page,
    groups: z.array(
      z.object({ ...group, tenants: z.int(), newest: z.array(z.object({ ...run, tenant: z.string() })) }),
    ),
  })
  .openapi('AllErrorGroups');

const sinceField = timeField.optional().openapi({ description: 'A day ago by default, at most 30 days.' });
const query = z.strictObject({
  since: sinceField,
  agent: textField(64).min(1).optional(),
  group: z
    .string()
    .regex(/^[0-9a-f]{16}$/, 'the fingerprint of a group: 16 hexadecimal digits')
    .optional()
    .openapi({ description: 'The fingerprint of a group: it alone, with its newest 100.' }),
  limit: limitField,
});
const NEWEST_OF_ONE = 100;
const WHAT =
  'By code, model, agent and message, without what differs from run to run: the most frequent first, each with its counts by hour and its ' +
  'newest five. Looks at the newest 2000 failed runs; `complete` says whether these are all.';

const ofTenant = createRoute({
  method: 'get',
  path: '/v1/errors',
  operationId: 'listErrorGroups',
  tags: ['runs'],
  summary: 'Why runs have failed, by cause',
  description: WHAT,
  request: { query },
  responses: { 200: jsonOf(errorGroupsBody, 'The causes.'), ...REFUSED },
});

const ofAll = createRoute({
  method: 'get',
  path: '/v1/operator/errors',
  operationId: 'listAllErrorGroups',
  tags: ['operator'],
  summary: 'Why runs of all tenants have failed, by cause',
  description: `${WHAT} The key needs the scope \`operator\`, which is shown no message: causes are by code, model and agent.`,
  request: { query },
  responses: { 200: jsonOf(allErrorGroupsBody, 'The causes.'), ...REFUSED },
});

export function registerErrorRoutes(app: BatonApp, { db }: HttpDeps): void {
  const read = async (tenantId: string | null, { since, agent, group: asked, limit }: z.output<typeof query>) => {
    const earliest = Date.now() - LONGEST_MS;
    const from = since === undefined ? Date.now() - DAY_MS : Math.max(earliest, Date.parse(since));
    const filter: FailedRunFilter = { tenantId, since: new Date(from), ...(agent !== undefined && { agent }) };
    const { runs, complete } = await readFailedRuns(db, filter);
    const shown = tenantId === null ? runs.map(withoutMessage) : runs;
    const groups =
      asked === undefined
        ? groupFailures(shown)
        : groupFailures(shown, NEWEST_OF_ONE).filter(({ fingerprint }) => fingerprint === asked);
    return { since: filter.since.toISOString(), complete, groups: groups.slice(0, limit) };
  };

  app.openapi(ofTenant, async (c) => {
    const { groups, ...rest } = await read(tenantOf(c), c.req.valid('query'));
    const bodies = groups.map((each) => ({
      ...toGroup(each),
      text: each.text,
      newest: each.newest.map((failed) => ({ ...toRun(failed), message: failed.message })),
    }));
    return c.json({ ...rest, groups: bodies }, 200);
  });

  app.openapi(ofAll, async (c) => {
    const { groups, ...rest } = await read(null, c.req.valid('query'));
    const bodies = groups.map((each) => ({
      ...toGroup(each),
      tenants: each.tenants,
      newest: each.newest.map((failed) => ({ ...toRun(failed), tenant: failed.tenant })),
    }));
    return c.json({ ...rest, groups: bodies }, 200);
  });
}

/** Removes the message, because it may repeat text of the session. */
const withoutMessage = (failed: FailedRun): FailedRun => ({ ...failed, message: '' });

function toGroup({ fingerprint, code, provider, model, agent, count, firstAt, lastAt, hours }: FailureGroup) {
  return {
    fingerprint,
    code,
    provider,
    model,
    agent,
    count,
    firstAt: firstAt.toISOString(),
    lastAt: lastAt.toISOString(),
    hours: hours.map((each) => ({ hour: each.hour.toISOString(), count: each.count })),
  };
}

const toRun = ({ runId, sessionId, at }: FailureGroup['newest'][number]) => ({
  runId: formatId('run', runId),
  sessionId: formatId('session', sessionId),
  at: at.toISOString(),
});
