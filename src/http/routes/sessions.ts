import type { z } from '@hono/zod-openapi';
import { nextCursor, toCursor } from '../../api/cursor.ts';
import { sessionBody } from '../../api/session-body.ts';
import {
  changeSessionRoute,
  createSessionRoute,
  deleteSessionRoute,
  getSessionRoute,
  isMetadataFilter,
  type listQuery,
  listSessionsRoute,
  METADATA_PREFIX,
} from '../../api/sessions.ts';
import { changeSession, deleteSession } from '../../commands/change-session.ts';
import { findKeyedSession, openSessionIn, refuseOtherAgent } from '../../commands/create-session.ts';
import { parseId } from '../../domain/ids.ts';
import type { Db } from '../../store/db/database.ts';
import { readOverviews } from '../../store/lists/session-overviews.ts';
import { type FoundSessions, searchSessions } from '../../store/lists/session-search.ts';
import { readRuns } from '../../store/session/runs.ts';
import {
  findSession,
  findSessionByKey,
  findSessionId,
  listSessions,
  readSessions,
  type SessionFilter,
  type SessionRow,
} from '../../store/session/sessions.ts';
import { toSessionBody } from '../bodies/session-body.ts';
import { toListedSessionBody } from '../bodies/session-overview.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { newSessionOf, toTime } from '../new-session.ts';
import { untilGone } from '../request-signal.ts';

export function registerSessionRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  registerCreation(app, deps);

  app.openapi(listSessionsRoute, async (c) => {
    const { rows, hits, nextCursor: next } = await readPage(deps, tenantOf(c), c.req.valid('query'));
    const overviews = await readOverviews(db, rows);
    const sessions = rows.map((row) => toListedSessionBody(row, overviews.get(row.id), hits?.get(row.id)));
    return c.json({ sessions, nextCursor: next }, 200);
  });

  app.openapi(getSessionRoute, async (c) => {
    return c.json(toSessionBody(await findSession(db, tenantOf(c), c.req.valid('param').id)), 200);
  });

  app.openapi(changeSessionRoute, async (c) => {
    const { title, metadata, expiresAt } = c.req.valid('json');
    const change = { title, metadata, expiresAt: expiresAt === undefined ? undefined : toTime(expiresAt) };
    const row = await changeSession(deps, { actor: c.get('caller'), sessionId: c.req.valid('param').id }, change);
    return c.json(toSessionBody(row), 200);
  });

  app.openapi(deleteSessionRoute, async (c) => {
    await deleteSession(deps, { actor: c.get('caller'), sessionId: c.req.valid('param').id });
    return c.body(null, 204);
  });
}

function registerCreation(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  app.openapi(createSessionRoute, async (c) => {
    const body = c.req.valid('json');
    const known = await findKeyedSession(db, { tenantId: tenantOf(c), key: body.key, agentName: body.agent });
    if (known !== null) return c.json(toSessionBody(known), 200);
    // Before the transaction, which must not wait for an MCP server. A failure only matters to a new session.
    const fresh = newSessionOf(deps, tenantOf(c), body, (agent) => deps.pinTools(agent, untilGone(c)));
    await Promise.allSettled([fresh]);
    let isNew = true;
    const submission = { route: createSessionRoute, request: body, answer: sessionBody };
    const { body: session, headers } = await workOnce(c, db, submission, async (tx) => {
      const opened = await openSessionIn(tx, deps, await fresh);
      refuseOtherAgent(opened.session, body.agent);
      isNew = opened.isNew;
      return toSessionBody(opened.session);
    });
    if (!isNew) return c.json(session, 200);
    return c.json(session, 201, { location: `/v1/sessions/${session.id}`, ...headers });
  });
}

type ListQuery = z.output<typeof listQuery>;
type ListedPage = Readonly<{ rows: SessionRow[]; hits?: FoundSessions['hits']; nextCursor: string | null }>;
type ListDeps = Pick<HttpDeps, 'db' | 'messageSearch'>;

async function readPage(deps: ListDeps, tenantId: string, query: ListQuery): Promise<ListedPage> {
  const { db } = deps;
  const { ids, key, q } = query;
  if (ids === undefined && key !== undefined) {
    const row = await findSessionByKey(db, tenantId, key);
    return { rows: row === null ? [] : [row], nextCursor: null };
  }
  const found = ids ?? (q === undefined ? undefined : await idsIn(db, tenantId, q));
  if (found !== undefined) return { rows: await readSessions(db, tenantId, found), nextCursor: null };
  return q === undefined && query.failed === undefined && query.minCost === undefined
    ? listPage(db, tenantId, query)
    : searchPage(deps, tenantId, query);
}

/** The session of an id that is looked for. Undefined: the text is no id. */
async function idsIn(db: Db, tenantId: string, text: string): Promise<string[] | undefined> {
  const sessionId = parseId('session', text.trim());
  if (sessionId !== null) return [sessionId];
  const runId = parseId('run', text.trim());
  if (runId === null) return undefined;
  return (await readRuns(db, tenantId, [runId])).map((run) => run.session_id);
}

async function filterOf(db: Db, tenantId: string, query: ListQuery): Promise<SessionFilter> {
  const { cursor, limit, status, waiting, agent, since } = query;
  const parentId = query.parent === undefined ? undefined : await findSessionId(db, tenantId, query.parent);
  const labels = Object.entries(query).filter(([key]) => isMetadataFilter(key));
  const metadata = Object.fromEntries(labels.map(([key, value]) => [key.slice(METADATA_PREFIX.length), String(value)]));
  return {
    tenantId,
    limit: limit + 1,
    ...(waiting === undefined ? status !== undefined && { status } : { status: 'requires_action' as const }),
    ...(agent !== undefined && { agent }),
    ...(parentId !== undefined && { parentId }),
    ...(since !== undefined && { since }),
    ...(labels.length > 0 && { metadata }),
    ...(cursor !== undefined && { after: cursor }),
  };
}

async function listPage(db: Db, tenantId: string, query: ListQuery): Promise<ListedPage> {
  const rows = await listSessions(db, await filterOf(db, tenantId, query));
  return { rows: rows.slice(0, query.limit), nextCursor: nextCursor('sessions', rows, query.limit) };
}

async function searchPage(
  { db, messageSearch = true }: ListDeps,
  tenantId: string,
  query: ListQuery,
): Promise<ListedPage> {
  const { q, failed, minCost, limit } = query;
  const { rows, hits, stoppedAt } = await searchSessions(db, {
    ...(await filterOf(db, tenantId, query)),
    ...(q !== undefined && { words: q, inMessages: messageSearch }),
    ...(failed !== undefined && { failed: true }),
    ...(minCost !== undefined && { minCostUsd: minCost }),
  });
  const stopped = stoppedAt === null ? null : toCursor({ list: 'sessions', ...stoppedAt });
  return { rows: rows.slice(0, limit), hits, nextCursor: nextCursor('sessions', rows, limit) ?? stopped };
}
