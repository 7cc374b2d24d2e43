import { createRoute, z } from '@hono/zod-openapi';
import { SESSION_STATUSES } from '../domain/run/session.ts';
import { MAX_BODY_BYTES } from '../domain/tunables.ts';
import { overridesBody } from './agent-overrides.ts';
import { limitBody } from './body-limit.ts';
import { cursorField } from './cursor.ts';
import {
  idParams,
  limitField,
  MAX_METADATA_VALUE_CHARS,
  metadataField,
  noQuery,
  ownKeyField,
  sessionRefField,
  textField,
  timeField,
  titleField,
} from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { idsField, trueField, usdField } from './list-fields.ts';
import {
  BODY_REFUSED,
  CONFLICT,
  jsonOf,
  NOT_FOUND,
  nextCursorBody,
  REFUSED,
  TOO_LARGE,
  UNKNOWN_AGENT,
} from './responses.ts';
import { listedSessionBody, sessionBody } from './session-body.ts';

const tags = ['sessions'];

export const newSessionBody = z
  .strictObject({
    agent: textField(64).min(1),
    key: ownKeyField.optional().openapi({
      description: 'Your own name for the session. An existing session with the name is returned as it is.',
    }),
    title: titleField.nullable().optional(),
    metadata: metadataField.optional(),
    expiresAt: timeField.nullable().optional(),
    overrides: overridesBody.optional(),
  })
  .openapi('NewSession', { example: { agent: 'workspace', title: 'Shipping' } });

export const createSessionRoute = createRoute({
  method: 'post',
  path: '/v1/sessions',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'createSession',
  tags,
  summary: 'Create a session of an agent, or get the one with a key',
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(newSessionBody),
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

export const METADATA_PREFIX = 'metadata.';

const searchField = textField(200)
  .refine((text) => /[^\s!-/:-@[-`{-~]/.test(text), { error: 'needs a letter or a digit' })
  .openapi({
    description:
      'Words, each of which begins a word of the title, the external key or a value of the metadata, or words of one message of the user or the assistant, the last of which may be a beginning of three characters; or the id of a session or run.',
  });

export const listQuery = z
  .object({
    cursor: cursorField('sessions'),
    limit: limitField,
    q: searchField.optional(),
    ids: idsField('session'),
    key: ownKeyField.optional().openapi({ description: 'Key of the session to find. No other filter applies then.' }),
    agent: textField(64).min(1).optional(),
    status: z.enum(SESSION_STATUSES).optional(),
    parent: sessionRefField.optional().openapi({
      description:
        'Session whose children to list, by its id or key: the sessions of the agents to which it gave tasks. Not with q, failed or minCost.',
    }),
    since: timeField.optional().openapi({ description: 'Earliest creation time.' }),
    failed: trueField.openapi({ description: 'Only sessions whose newest run has failed.' }),
    waiting: trueField.openapi({ description: 'Only sessions with the status `requires_action`.' }),
    minCost: usdField.openapi({ type: 'number', description: 'Least cost of the session in US dollars.' }),
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

export const isMetadataFilter = (key: string): boolean =>
  key.startsWith(METADATA_PREFIX) && textField(64).min(1).safeParse(key.slice(METADATA_PREFIX.length)).success;

export const listSessionsRoute = createRoute({
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

export const getSessionRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}',
  operationId: 'getSession',
  tags,
  summary: 'Read a session',
  request: { params: idParams('session'), query: noQuery },
  responses: { 200: jsonOf(sessionBody, 'The session.'), ...REFUSED, ...NOT_FOUND },
});

export const changeSessionRoute = createRoute({
  method: 'patch',
  path: '/v1/sessions/{id}',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'changeSession',
  tags,
  summary: 'Change a session’s title, metadata or expiry',
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

export const deleteSessionRoute = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}',
  operationId: 'deleteSession',
  tags,
  summary: 'Delete a session with everything in it',
  description:
    'Refused while a run is active, in it or in a child of it: cancel the session first, which stops its children. Children that have ended stay, as sessions of their own.',
  request: { params: idParams('session'), query: noQuery },
  responses: { 204: { description: 'The session is gone.' }, ...REFUSED, ...TOO_LARGE, ...NOT_FOUND, ...CONFLICT },
});
