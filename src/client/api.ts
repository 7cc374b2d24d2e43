import type {
  ApiKey,
  AuditEntry,
  ContextMeter,
  ListedSession,
  RepinnedTools,
  Run,
  RunError,
  Session,
} from './contract.ts';
import type { Json } from './json.ts';

/** A model provider's report of a failed call, without prompt and credentials. Unknown fields are left out. */
export type ProviderFailure = NonNullable<RunError['provider']>;

/** The session that a fork was made of, and the last message that was copied, by its id in that session. */
export type ForkedFrom = NonNullable<Session['forkedFrom']>;

/** Differences between a server's tools, by their own names, and those that the session knew. */
export type ToolChanges = RepinnedTools['changes'][number];

/** `token` goes to a browser, as `Authorization: Bearer`. */
export type SessionToken = Readonly<{ token: string; access: 'read' | 'write'; expiresAt: string }>;

/** With a search a page may have few sessions, or none, and still a `nextCursor`. */
export type SessionPage = Readonly<{ sessions: readonly ListedSession[]; nextCursor: string | null }>;

export type RunPage = Readonly<{ runs: readonly Run[]; nextCursor: string | null }>;

export type Compaction = ContextMeter['compactions'][number];

/**
 * A decision, or the output of a call that the caller has run: a string or any JSON value. With files the output is `{
 * type: 'content', value: […] }`, with files as in a message. `args`: the call runs with these in place of those that
 * the model gave.
 */
export type ToolCallAnswer =
  | Readonly<{ decision: 'approve'; args?: Readonly<Record<string, Json>> | undefined }>
  | Readonly<{ decision: 'deny'; reason?: string | undefined }>
  | Readonly<{ output: Json; isError?: boolean | undefined }>;

export type ApiKeyPage = Readonly<{ keys: readonly ApiKey[]; nextCursor: string | null }>;

export type AuditPage = Readonly<{ entries: readonly AuditEntry[]; next: number | null }>;
