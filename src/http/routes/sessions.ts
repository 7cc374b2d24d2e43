import { createRoute, z } from '@hono/zod-openapi';
import { agentVersion } from '../../agents/agent.ts';
import { withOverrides } from '../../agents/overrides.ts';
import { SESSION_STATUSES } from '../../domain/run/session.ts';
import { refuseForeignModel, refuseUnusableModels } from '../../model/configured-models.ts';
import { inTransaction } from '../../store/database.ts';
import { refuseOverStorage } from '../../store/quota.ts';
import { deleteSession, findSession, insertSession, listSessions, updateSession } from '../../store/sessions.ts';
import { checkModel, overridesBody } from '../bodies/agent-overrides.ts';
import { cursorField, nextCursor } from '../bodies/cursor.ts';
import {
  idParams,
  limitField,
  MAX_METADATA_VALUE_CHARS,
  metadataField,
  noQuery,
  textField,
  timeField,
  titleField,
} from '../bodies/fields.ts';
import {
  BODY_REFUSED,
  CONFLICT,
  jsonOf,
  NOT_FOUND,
  nextCursorBody,
  REFUSED,
  UNKNOWN_AGENT,
} from '../bodies/responses.ts';
import { sessionBody, toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

const tags = ['sessions'];

const create = createRoute({
  method: 'post',
  path: '/v1/sessions',
  operationId: 'createSession',
  tags,
  summary: 'Create a session of an agent',
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z
            .strictObject({
              agent: textField(64).min(1),
              title: titleField.nullable().optional(),
              metadata: metadataField.optional(),
              expiresAt: timeField.nullable().optional(),
              overrides: overridesBody.optional(),
            })
            .openapi('NewSession', { example: { agent: 'workspace', title: 'Shipping' } }),
        },
      },
    },
  },
  responses: {
    201: jsonOf(sessionBody, 'The new session.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

const METADATA_PREFIX = 'metadata.';

const listQuery = z
  .object({ cursor: cursorField('sessions'), limit: limitField, status: z.enum(SESSION_STATUSES).optional() })
  .catchall(textField(MAX_METADATA_VALUE_CHARS))
  .superRefine(({ cursor, limit, status, ...rest }, ctx) => {
    const keys = Object.keys(rest).filter((key) => !isMetadataFilter(key));
    if (keys.length > 0) ctx.addIssue({ code: 'unrecognized_keys', keys, message: 'unknown parameter' });
  });

const isMetadataFilter = (key: string): boolean =>
  key.startsWith(METADATA_PREFIX) && textField(64).min(1).safeParse(key.slice(METADATA_PREFIX.length)).success;

const list = createRoute({
  method: 'get',
  path: '/v1/sessions',
  operationId: 'listSessions',
  tags,
  summary: 'List sessions, newest first',
  description: 'Parameters of the form `metadata.<key>=<value>` keep the sessions that carry this label.',
  request: { query: listQuery },
  responses: {
    200: jsonOf(z.object({ sessions: z.array(sessionBody), nextCursor: nextCursorBody }), 'A page of sessions.'),
    ...REFUSED,
  },
});

const get = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}',
  operationId: 'getSession',
  tags,
  summary: 'Read a session',
  request: { params: idParams('session'), query: noQuery },
  responses: { 200: jsonOf(sessionBody, 'The session.'), ...REFUSED, ...NOT_FOUND },
});

const patch = createRoute({
  method: 'patch',
  path: '/v1/sessions/{id}',
  operationId: 'changeSession',
  tags,
  summary: 'Change title, metadata or the end of the keeping of a session',
  description: 'Metadata is replaced as a whole. A field that is left out stays as it is.',
  request: {
    params: idParams('session'),
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z
            .strictObject({
              title: titleField.nullable().optional(),
              metadata: metadataField.optional(),
              expiresAt: timeField.nullable().optional(),
            })
            .openapi('SessionChange', { example: { title: 'Shipping, answered' } }),
        },
      },
    },
  },
  responses: { 200: jsonOf(sessionBody, 'The changed session.'), ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}',
  operationId: 'deleteSession',
  tags,
  summary: 'Delete a session with everything in it',
  description: 'Refused while a run is active: cancel it first.',
  request: { params: idParams('session'), query: noQuery },
  responses: { 204: { description: 'The session is gone.' }, ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

const toTime = (given: string | null): Date | null => (given === null ? null : new Date(given));

export function registerSessionRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, agents, models, pinTools, newId } = deps;
  app.openapi(create, async (c) => {
    const body = c.req.valid('json');
    const known = await agents.current();
    const definition = known.get(body.agent);
    const agent = withOverrides(definition, body.overrides ?? {});
    // Before the transaction, which must not wait for an MCP server. A failure only matters to a new session.
    const pinned = pinTools(agent, untilGone(c));
    await Promise.allSettled([pinned]);
    const asked = { route: create, request: body, answer: sessionBody };
    const { body: session, headers } = await workOnce(c, db, asked, async (tx) => {
      refuseForeignModel(definition, known, agent.model);
      refuseUnusableModels(agent, known, deps.modelCheck);
      checkModel(models, agent.model, body.overrides);
      await refuseOverStorage(tx, tenantOf(c), deps.quota);
      const row = await insertSession(tx, {
        id: newId(),
        tenantId: tenantOf(c),
        agentName: agent.name,
        agentVersion: agentVersion(agent),
        agentSnapshot: await pinned,
        overrides: body.overrides ?? {},
        title: body.title ?? null,
        metadata: body.metadata ?? {},
        expiresAt: toTime(body.expiresAt ?? null),
      });
      return toSessionBody(row);
    });
    return c.json(session, 201, { location: `/v1/sessions/${session.id}`, ...headers });
  });

  app.openapi(list, async (c) => {
    const { cursor, limit, status, ...filters } = c.req.valid('query');
    const metadata = Object.entries(filters).map(([key, value]) => [key.slice(METADATA_PREFIX.length), value] as const);
    const rows = await listSessions(db, {
      tenantId: tenantOf(c),
      limit: limit + 1,
      ...(status === undefined ? {} : { status }),
      ...(metadata.length === 0 ? {} : { metadata: Object.fromEntries(metadata) }),
      ...(cursor === undefined ? {} : { after: cursor }),
    });
    const sessions = rows.slice(0, limit).map(toSessionBody);
    return c.json({ sessions, nextCursor: nextCursor('sessions', rows, limit) }, 200);
  });

  app.openapi(get, async (c) => {
    return c.json(toSessionBody(await findSession(db, tenantOf(c), c.req.valid('param').id)), 200);
  });

  app.openapi(patch, async (c) => {
    const { title, metadata, expiresAt } = c.req.valid('json');
    const row = await updateSession(db, tenantOf(c), c.req.valid('param').id, {
      ...(title === undefined ? {} : { title }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(expiresAt === undefined ? {} : { expiresAt: toTime(expiresAt) }),
    });
    return c.json(toSessionBody(row), 200);
  });

  app.openapi(remove, async (c) => {
    const { id } = c.req.valid('param');
    await inTransaction(db, async (tx) => {
      await deleteSession(tx, tenantOf(c), id);
      await auditRequest(tx, c, 'session:delete');
    });
    return c.body(null, 204);
  });
}
