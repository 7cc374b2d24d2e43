import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { RequestIdVariables } from 'hono/request-id';
import type { Caller } from '../domain/access.ts';

/** What the server tells the app about itself with every request; absent where the app is called without a server. */
export type ServerBindings = Readonly<{
  /** Aborted when the server stops: whatever holds a response open ends it. */
  shutdown?: AbortSignal;
  /** Names besides the loopback ones that requests may be addressed to; null: any, but where no key is needed none. */
  allowedHosts?: readonly string[] | null;
  /** Whether only this machine reaches the server. */
  onLoopback?: boolean;
  /** Whether everybody may do everything as long as there is no API key. */
  openWithoutKeys?: boolean;
  /** Of the other end of the connection, which may be a proxy. */
  remoteAddress?: string;
  /** Aborted when the response to this request is complete, or its connection is gone. */
  closed?: AbortSignal;
}>;

/**
 * What is known of a request once it was let in. `denied` is aborted when its caller would not be let in any more; absent
 * where anybody is.
 */
type AccessVariables = { caller: Caller; denied?: AbortSignal };

/** A large body, once it was parsed. */
type BodyVariables = { largeBody?: unknown };

export type HttpEnv = { Bindings: ServerBindings; Variables: RequestIdVariables & AccessVariables & BodyVariables };
export type BatonApp = OpenAPIHono<HttpEnv>;

/** The tenant whose data the request is about: every query is for this one alone. */
export function tenantOf(c: Context<HttpEnv>): string {
  return c.get('caller').tenantId;
}
