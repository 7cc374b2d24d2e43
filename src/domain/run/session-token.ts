import { z } from 'zod';
import { TOKEN_ALLOWANCES, type TokenGrant } from '../access.ts';
import { type RunLimits, runLimitsSchema } from './run-limits.ts';

/** Scanners for leaked secrets recognize a token by it. */
export const TOKEN_PREFIX = 'batontoken_';
/** Longer than a token of this version. */
export const MAX_TOKEN_CHARS = 3_000;

const grantSchema: z.ZodType<TokenGrant> = z.strictObject({
  limits: runLimitsSchema,
  allow: z.array(z.enum(TOKEN_ALLOWANCES)),
});

const claimsSchema = z.strictObject({
  sessionId: z.uuid(),
  tenantId: z.string(),
  /** The key whose caller made the token; null: no key was needed. The token ends with it. */
  keyId: z.uuid().nullable(),
  canWrite: z.boolean(),
  grant: grantSchema,
  expiresAtMs: z.int(),
});

/** Content of a token: the session that it opens, and until when. */
export type SessionClaims = Readonly<z.infer<typeof claimsSchema>>;

export const encodeClaims = (claims: SessionClaims): string => JSON.stringify(claims);

/** Null: they are none. */
export function decodeClaims(encoded: string): SessionClaims | null {
  try {
    return claimsSchema.safeParse(JSON.parse(encoded)).data ?? null;
  } catch {
    return null;
  }
}

/**
 * The limits that a request names, of a caller with a token or (`grant` undefined) with a key. `lowered` takes down what
 * holds otherwise, and never up: whoever holds a token does not pay for its runs.
 */
export function limitsFor(
  grant: TokenGrant | undefined,
  limits: RunLimits = {},
): Readonly<{ limits: RunLimits; lowered: RunLimits }> {
  return grant === undefined ? { limits, lowered: {} } : { limits: grant.limits, lowered: limits };
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
