import type { IncomingMessage } from 'node:http';
import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { RequestIdVariables } from 'hono/request-id';
import type { SecureHeadersVariables } from 'hono/secure-headers';
import type { IncomingHook } from '../agents/incoming-hooks.ts';
import type { Caller } from '../domain/access.ts';
import type { OpenAnswer } from './open-answer.ts';
import type { ReadBody } from './read-body.ts';
import type { AcceptSocket } from './upgrade.ts';

/** Facts that the server passes to the app with every request; absent if the app is called without a server. */
export type ServerBindings = Readonly<{
  /** Aborted when the server stops. Responses that are held open then end. */
  shutdown?: AbortSignal;
  /** Host names, besides loopback's, that requests may be addressed to. Null: any, but none if no key is needed. */
  allowedHosts?: readonly string[] | null;
  /** Whether only this machine reaches the server. */
  onLoopback?: boolean;
  /** Whether every caller may do everything while there is no API key. */
  openWithoutKeys?: boolean;
  /** The caller, where the program itself makes the request: it needs no key. */
  caller?: Caller;
  /** Address of the other end of the connection, which may be a proxy. */
  remoteAddress?: string;
  /** The request as Node's server has it. Absent: it came another way. */
  incoming?: IncomingMessage;
  /** Aborted when the response to this request is complete, or its connection is gone. */
  closed?: AbortSignal;
  /** The answer to this request, on its connection. */
  answer?: OpenAnswer;
  /** Makes its connection a WebSocket. Absent: the request does not ask for one. */
  acceptSocket?: AcceptSocket;
  /** Whether the request came over a WebSocket, which itself counts as held open. */
  onSocket?: boolean;
}>;

type KnownCaller = Pick<Caller, 'tenantId' | 'scopes'>;

/**
 * Identifies the caller of a request by means of the program that mounts the API: a session of its own, say.
 * @param from.incoming the request as Node's server has it, with what the program has put on it (`user`, `session`);
 * undefined for a request that came by `baton.fetch`
 * @returns null or undefined: the program knows nobody. What it throws refuses the request
 */
export type Authenticate = (
  request: Request,
  from: Readonly<{ incoming: IncomingMessage | undefined }>,
) => Promise<KnownCaller | null | undefined> | KnownCaller | null | undefined;

/** How a program lets people into the console that it mounts. */
export type ConsoleAccess = Readonly<{
  /**
   * Identifies the person in front of the console by the program's own session: its cookie, say. It is asked for
   * requests of the console alone, after those of other origins are refused, and before anybody has to send an API key.
   */
  authenticate?: Authenticate;
  /**
   * Where people log in to the program: `/login?next={page}`, in which `{page}` stands for the address of the console's
   * page. Absent: the console asks for an API key alone.
   */
  loginUrl?: string;
}>;

/**
 * Set when a request is let in. `denied` is aborted when its caller loses access; both are absent on open paths.
 * `isNamedOrigin`: the request comes from a page of an origin that the settings name.
 */
type AccessVariables = { caller: Caller; denied?: AbortSignal; isNamedOrigin?: boolean };

/** The body that was read, and what was parsed from it if it is large. */
type BodyVariables = { body?: ReadBody; largeBody?: unknown };

/** Gives the request's slot to the next request of its tenant. Absent: it has none. */
type SlotVariables = { freeSlot?: () => void };

/** The hook that the request is for. */
type HookVariables = { hook?: IncomingHook };

type Variables = RequestIdVariables &
  Partial<SecureHeadersVariables> &
  AccessVariables &
  BodyVariables &
  SlotVariables &
  HookVariables;
export type HttpEnv = { Bindings: ServerBindings; Variables: Variables };
export type BatonApp = OpenAPIHono<HttpEnv>;

/** The tenant of the request. Every query is limited to its data. */
export function tenantOf(c: Context<HttpEnv>): string {
  return c.get('caller').tenantId;
}
