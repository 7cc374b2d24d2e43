import { z } from 'zod';

/** Scanners for leaked secrets recognize a token by it. */
export const TOKEN_PREFIX = 'batontoken_';
/** Longer than a token of this version. */
export const MAX_TOKEN_CHARS = 1_000;

const claimsSchema = z.strictObject({
  sessionId: z.uuid(),
  tenantId: z.string(),
  /** The key whose caller made the token; null: no key was needed. The token ends with it. */
  keyId: z.uuid().nullable(),
  canWrite: z.boolean(),
  expiresAtMs: z.int(),
});

/** Content of a token: the session that it opens, and until when. */
export type SessionClaims = Readonly<z.infer<typeof claimsSchema>>;

/** The signed part of a token. */
export const encodeClaims = (claims: SessionClaims): string =>
  Buffer.from(JSON.stringify(claims), 'utf8').toString('base64url');

/** Null: they are none. */
export function decodeClaims(encoded: string): SessionClaims | null {
  try {
    return claimsSchema.safeParse(JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'))).data ?? null;
  } catch {
    return null;
  }
}

/** Requests that the holder of a token may make: reading its session, talking in it, and the runs of it. */
const OWN_PATHS = [
  /^\/v1\/sessions\/(?<session>[^/]+)(?:\/(?:messages|events|queue|cancel|resume|context)(?:\/.*)?)?$/,
  /^\/api\/chat\/(?<session>[^/]+)\/(?:messages|stream|stop)$/,
];
const RUN_PATH = /^\/v1\/runs\/(?<run>[^/]+)(?:\/(?:wait|cancel|tool-calls\/[^/]+))?$/;
/** Its body names the session. */
const CHAT_PATH = '/api/chat';

export type TokenReach = Readonly<
  | { kind: 'none' }
  /** The request is about the session or run of this public id, which has to be the token's own. */
  | { kind: 'session'; id: string }
  | { kind: 'run'; id: string }
  /** The route decides by the body. */
  | { kind: 'chat' }
>;

/** The session or run that a request with a token is about. `none`: a token does not allow the request. */
export function tokenReach(method: string, path: string): TokenReach {
  if (path === CHAT_PATH) return { kind: 'chat' };
  const run = RUN_PATH.exec(path)?.groups?.['run'];
  if (run !== undefined) return { kind: 'run', id: run };
  for (const pattern of OWN_PATHS) {
    const id = pattern.exec(path)?.groups?.['session'];
    // The session itself is only read: its settings and its end are its owner's.
    const isItself = path === `/v1/sessions/${id}`;
    if (id !== undefined && (!isItself || method === 'GET' || method === 'HEAD')) return { kind: 'session', id };
  }
  return { kind: 'none' };
}
