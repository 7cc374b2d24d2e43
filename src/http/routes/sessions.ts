import { createRoute, z } from '@hono/zod-openapi';
import { agentVersion } from '../../agents/agent.ts';
import { withOverrides } from '../../agents/overrides.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseId } from '../../domain/ids.ts';
import { SESSION_STATUSES } from '../../domain/run/session.ts';
import { MAX_BODY_BYTES } from '../../domain/tunables.ts';
import { refuseForeignModel, refuseUnusableModels } from '../../model/configured-models.ts';
import { type Db, inTransaction } from '../../store/db/database.ts';
import { readOverviews } from '../../store/lists/session-overviews.ts';
import { searchSessions } from '../../store/lists/session-search.ts';
import { refuseOverStorage } from '../../store/session/quota.ts';
import { readRuns } from '../../store/session/runs.ts';
import {
  deleteSession,
  findSession,
  findSessionByKey,
  insertSession,
  listSessions,
  readSessions,
  type SessionRow,
  updateSession,
} from '../../store/session/sessions.ts';
import { checkModel, overridesBody } from '../bodies/agent-overrides.ts';
import { cursorField, nextCursor, toCursor } from '../bodies/cursor.ts';
import {
  idField,
  idParams,
  limitField,
  MAX_METADATA_VALUE_CHARS,
  metadataField,
  noQuery,
  sessionKeyField,
  textField,
  timeField,
  titleField,
} from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { idsField, trueField, usdField } from '../bodies/list-fields.ts';
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
import { listedSessionBody, toListedSessionBody } from '../bodies/session-overview.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

const tags = ['sessions'];

const create = createRoute({
  method: 'post',
  path: '/v1/sessions',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'createSession',
  tags,
  summary: 'Create a session of an agent, or get the one with a key',
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(
      z
        .strictObject({
          agent: textField(64).min(1),
          key: sessionKeyField.optional().openapi({
            description: 'Your own name for the session. If there is one with it, that is the answer, as it is.',
          }),
          title: titleField.nullable().optional(),
          metadata: metadataField.optional(),
          expiresAt: timeField.nullable().optional(),
          overrides: overridesBody.optional(),
        })
        .openapi('NewSession', { example: { agent: 'workspace', title: 'Shipping' } }),
    ),
  },
  responses: {
    200: jsonOf(sessionBody, 'The session that has the key.'),
    201: jsonOf(sessionBody, 'The new session.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

const METADATA_PREFIX = 'metadata.';

const searchField = textField(200)
  .refine((text) => /[^\s!-/:-@[-`{-~]/.test(text), { error: 'needs a letter or a digit' })
  .openapi({
    description:
      'Words, each of which begins a word of the title, the external key or a value of the metadata; or the id of a session or run.',
  });

const listQuery = z
  .object({
    cursor: cursorField('sessions'),
    limit: limitField,
    q: searchField.optional(),
    ids: idsField('session'),
    key: sessionKeyField
      .optional()
      .openapi({ description: 'The session with this key; no other filter applies then.' }),
    agent: textField(64).min(1).optional(),
    status: z.enum(SESSION_STATUSES).optional(),
    parent: idField('session').optional().openapi({
      description: 'The sessions of the agents to which this one gave tasks. Not with q, failed or minCost.',
    }),
    since: timeField.optional().openapi({ description: 'Created then or later.' }),
    failed: trueField.openapi({ description: 'Their newest run has failed.' }),
    waiting: trueField.openapi({ description: 'The same as the status `requires_action`.' }),
    minCost: usdField.openapi({ type: 'number', description: 'They have cost at least so many US dollars.' }),
  })
  .catchall(textField(MAX_METADATA_VALUE_CHARS))
  .superRefine((query, ctx) => {
    const keys = Object.keys(query).filter((key) => !KNOWN_FILTERS.has(key) && !isMetadataFilter(key));
    if (keys.length > 0) ctx.addIssue({ code: 'unrecognized_keys', keys, message: 'unknown parameter' });
    if (query.waiting !== undefined && query.status !== undefined && query.status !== 'requires_action') {
      ctx.addIssue({ code: 'custom', path: ['waiting'], message: `not with the status ${query.status}` });
    }
    const sought = (['q', 'failed', 'minCost'] as const).find((name) => query[name] !== undefined);
    if (query.parent !== undefined && sought !== undefined) {
      ctx.addIssue({ code: 'custom', path: ['parent'], message: `not with ${sought}` });
    }
  });

const KNOWN_FILTERS: ReadonlySet<string> = new Set([
  'cursor',
  'limit',
  'q',
  'ids',
  'key',
  'agent',
  'status',
  'parent',
  'since',
  'failed',
  'waiting',
  'minCost',
]);

const isMetadataFilter = (key: string): boolean =>
  key.startsWith(METADATA_PREFIX) && textField(64).min(1).safeParse(key.slice(METADATA_PREFIX.length)).success;

const list = createRoute({
  method: 'get',
  path: '/v1/sessions',
  operationId: 'listSessions',
  tags,
  summary: 'List sessions, newest first',
  description:
    'Parameters of the form `metadata.<key>=<value>` keep the sessions that carry this label. With `q`, `failed` or `minCost` ' +
    'a page looks at 5000 sessions: it may have few entries, or none, and still a `nextCursor`. `ids` is for lists that read ' +
    'some of their rows again; no other filter applies then.',
  request: { query: listQuery },
  responses: {
    200: jsonOf(z.object({ sessions: z.array(listedSessionBody), nextCursor: nextCursorBody }), 'A page of sessions.'),
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
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'changeSession',
  tags,
  summary: 'Change title, metadata or the end of the keeping of a session',
  description: 'Metadata is replaced as a whole. A field that is left out stays as it is.',
  request: {
    params: idParams('session'),
    query: noQuery,
    body: jsonBody(
      z
        .strictObject({
          title: titleField.nullable().optional(),
          metadata: metadataField.optional(),
          expiresAt: timeField.nullable().optional(),
        })
        .openapi('SessionChange', { example: { title: 'Shipping, answered' } }),
    ),
  },
  responses: { 200: jsonOf(sessionBody, 'The changed session.'), ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}',
  operationId: 'deleteSession',
  tags,
  summary: 'Delete a session with everything in it',
  description:
    'Refused while a run is active, in it or in a child of it: cancel the session first, which stops its children. Children that have ended stay, as sessions of their own.',
  request: { params: idParams('session'), query: noQuery },
  responses: { 204: { description: 'The session is gone.' }, ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

const toTime = (given: string | null): Date | null => (given === null ? null : new Date(given));

export function registerSessionRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, agents, models, pinTools, newId } = deps;
  app.openapi(create, async (c) => {
    const body = c.req.valid('json');
    const existing = await findKeyed(db, tenantOf(c), body);
    if (existing !== null) return c.json(existing, 200);
    const known = await agents.current();
    const definition = known.get(body.agent);
    const agent = withOverrides(definition, body.overrides ?? {});
    // Before the transaction, which must not wait for an MCP server. A failure only matters to a new session.
    const pinned = pinTools(agent, untilGone(c));
    await Promise.allSettled([pinned]);
    const asked = { route: create, request: body, answer: sessionBody };
    const work = workOnce(c, db, asked, async (tx) => {
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
        ...(body.key !== undefined && { externalKey: body.key }),
      });
      return toSessionBody(row);
    });
    // Of two requests with a new key at once, the other one may have created the session.
    const made = await work.catch(async (error: unknown) => {
      const isTaken = error instanceof BatonError && error.code === 'conflict';
      const other = isTaken ? await findKeyed(db, tenantOf(c), body) : null;
      if (other === null) throw error;
      return other;
    });
    if (!('headers' in made)) return c.json(made, 200);
    const { body: session, headers } = made;
    return c.json(session, 201, { location: `/v1/sessions/${session.id}`, ...headers });
  });

  app.openapi(list, async (c) => {
    const { rows, nextCursor: next } = await readPage(db, tenantOf(c), c.req.valid('query'));
    const overviews = await readOverviews(db, rows);
    return c.json(
      { sessions: rows.map((row) => toListedSessionBody(row, overviews.get(row.id))), nextCursor: next },
      200,
    );
  });

  app.openapi(get, async (c) => {
    return c.json(toSessionBody(await findSession(db, tenantOf(c), c.req.valid('param').id)), 200);
  });

  app.openapi(patch, async (c) => {
    const { title, metadata, expiresAt } = c.req.valid('json');
    const change = {
      ...(title === undefined ? {} : { title }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(expiresAt === undefined ? {} : { expiresAt: toTime(expiresAt) }),
    };
    const row = await inTransaction(db, async (tx) => {
      const changed = await updateSession(tx, tenantOf(c), c.req.valid('param').id, change);
      await auditRequest(tx, c, 'session:update');
      return changed;
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

type Keyed = Readonly<{ key?: string | undefined; agent: string }>;

/** The session with the key. Null: there is none, or no key is asked for. @throws BatonError `conflict` (another agent) */
async function findKeyed(db: Db, tenantId: string, { key, agent }: Keyed): Promise<z.infer<typeof sessionBody> | null> {
  const row = key === undefined ? null : await findSessionByKey(db, tenantId, key);
  if (row === null) return null;
  if (row.agent_name === agent) return toSessionBody(row);
  throw new BatonError('conflict', `the session with the key ${JSON.stringify(key)} has the agent ${row.agent_name}`);
}

type ListQuery = z.output<typeof listQuery>;
type ListedPage = Readonly<{ rows: SessionRow[]; nextCursor: string | null }>;

async function readPage(db: Db, tenantId: string, query: ListQuery): Promise<ListedPage> {
  const { ids, key, q } = query;
  if (ids === undefined && key !== undefined) {
    const row = await findSessionByKey(db, tenantId, key);
    return { rows: row === null ? [] : [row], nextCursor: null };
  }
  const found = ids ?? (q === undefined ? undefined : await idsIn(db, tenantId, q));
  if (found !== undefined) return { rows: await readSessions(db, tenantId, found), nextCursor: null };
  return q === undefined && query.failed === undefined && query.minCost === undefined
    ? listPage(db, tenantId, query)
    : searchPage(db, tenantId, query);
}

/** The session of an id that is looked for. Undefined: the text is no id. */
async function idsIn(db: Db, tenantId: string, text: string): Promise<string[] | undefined> {
  const sessionId = parseId('session', text.trim());
  if (sessionId !== null) return [sessionId];
  const runId = parseId('run', text.trim());
  if (runId === null) return undefined;
  return (await readRuns(db, tenantId, [runId])).map((run) => run.session_id);
}

function filterOf(tenantId: string, query: ListQuery) {
  const { cursor, limit, status, waiting, agent, parent, since } = query;
  const labels = Object.entries(query).filter(([key]) => isMetadataFilter(key));
  const metadata = Object.fromEntries(labels.map(([key, value]) => [key.slice(METADATA_PREFIX.length), String(value)]));
  return {
    tenantId,
    limit: limit + 1,
    ...(waiting === undefined ? status !== undefined && { status } : { status: 'requires_action' as const }),
    ...(agent !== undefined && { agent }),
    ...(parent !== undefined && { parentId: parent }),
    ...(since !== undefined && { since }),
    ...(labels.length > 0 && { metadata }),
    ...(cursor !== undefined && { after: cursor }),
  };
}

async function listPage(db: Db, tenantId: string, query: ListQuery): Promise<ListedPage> {
  const rows = await listSessions(db, filterOf(tenantId, query));
  return { rows: rows.slice(0, query.limit), nextCursor: nextCursor('sessions', rows, query.limit) };
}

async function searchPage(db: Db, tenantId: string, query: ListQuery): Promise<ListedPage> {
  const { q, failed, minCost, limit } = query;
  const { rows, stoppedAt } = await searchSessions(db, {
    ...filterOf(tenantId, query),
    ...(q !== undefined && { words: q }),
    ...(failed !== undefined && { failed: true }),
    ...(minCost !== undefined && { minCostUsd: minCost }),
  });
  const stopped = stoppedAt === null ? null : toCursor({ list: 'sessions', ...stoppedAt });
  return { rows: rows.slice(0, limit), nextCursor: nextCursor('sessions', rows, limit) ?? stopped };
}
