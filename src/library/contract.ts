import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LanguageModel } from 'ai';
import type pg from 'pg';
import type { BatonClient, NewSession, SendOptions } from '../client/client.ts';
import type {
  DeclaredSchedule as CheckedSchedule,
  DeclaredWebhook as CheckedWebhook,
} from '../declarations/declarations.ts';
import type { RequestedDelivery } from '../domain/run/delivery.ts';
import type { JobKind } from '../domain/run/job.ts';
import type { RunStatus } from '../domain/run/run.ts';
import type { Authenticate, ConsoleAccess } from '../http/http-env.ts';
import type { GivenSettings } from '../platform/config.ts';
import type { GivenLogger } from '../platform/log.ts';
import type { CallerClient } from '../store/db/caller-transaction.ts';
import type { AgentDefinition } from './agent-definition.ts';
import type { BatonKeys } from './keys.ts';

/**
 * Settings of the service's processes, with the reason for which a program cannot give them: it has a logger, telemetry
 * and processes of its own.
 */
export const OF_PROCESSES = {
  logLevel: 'give `log`, a logger with a level of its own',
  otlpEndpoint: 'start the SDK of OpenTelemetry in the program',
  metricsPort: 'serve `/metrics` of the mounted API',
  processes: 'start the program several times',
} as const satisfies Partial<Record<keyof GivenSettings, string>>;

/** A webhook with a key, by which a start finds it. A new one needs a secret; one that is left out stays as it is. */
export type DeclaredWebhook<AgentName extends string = string> = CheckedWebhook &
  Readonly<{ agent?: AgentName | null | undefined }>;

/** A schedule with a key, by which a start finds it. */
export type DeclaredSchedule<AgentName extends string = string> = CheckedSchedule & Readonly<{ agent: AgentName }>;

export type BatonOptions<Agents extends readonly AgentDefinition[] = readonly AgentDefinition[]> = Omit<
  GivenSettings,
  keyof typeof OF_PROCESSES
> &
  Readonly<{
    /**
     * The program's own pool of `pg`, whose connections Baton uses for its queries. It is not ended with Baton. Without
     * `databaseUrl`, the connections that listen or hold a lock lead to the same place.
     */
    pool?: Pick<pg.Pool, 'connect' | 'options'>;
    /** Absent: the files of `agentsDir`. */
    agents?: Agents;
    /** Models of the AI SDK by the name `provider/model` that agents and overrides give them. */
    models?: Readonly<Record<string, Exclude<LanguageModel, string>>>;
    /**
     * Webhooks of the tenant `default` that this program declares. The start creates or changes those that differ. One that
     * an earlier start has declared and that is not in the list any more is disabled. Absent: none is changed.
     */
    webhooks?: readonly DeclaredWebhook<Agents[number]['name']>[];
    /** Schedules, as `webhooks`. One that is not in the list any more is paused. */
    schedules?: readonly DeclaredSchedule<Agents[number]['name']>[];
    /** The name under which it declares. Programs of one database with lists of their own need different ones. Default: `program`. */
    declaredAs?: string;
    /** Absent: nothing is logged. A logger of pino, or `console`-like functions that take an object. */
    log?: GivenLogger;
    /**
     * Identifies the callers of the mounted API, before API keys do. Null: the request needs an API key, or a login of
     * the console. An error that it throws refuses the request. Absent: callers need API keys.
     */
    authenticate?: Authenticate;
    /** How people enter the console of the mounted API. Absent: with API keys. */
    console?: ConsoleAccess;
    /** Whether the mounted API takes requests without a key while there is none. Then every caller may do everything. */
    openWithoutKeys?: boolean;
    /** The variables that agents, providers and MCP servers name. Default: none. */
    environment?: Readonly<Record<string, string | undefined>>;
    /** Whether the schema is brought up to date. Default: true. False: a database that is behind is refused. */
    migrate?: boolean;
  }>;

export type WorkerOptions = Readonly<{
  /** Most steps at the same time. Default: the setting `stepConcurrency`. */
  steps?: number;
  /** The kinds of jobs that it takes. Default: all. */
  kinds?: readonly JobKind[];
}>;

export type SendInOptions = Pick<SendOptions, 'id' | 'limits' | 'output' | 'webhook'> &
  Readonly<{
    tenantId?: string;
    /** While a run is at work. Default: `steer`. */
    delivery?: Exclude<RequestedDelivery, 'interrupt'>;
  }>;

/**
 * A session for a message, which the transaction creates. With a key that a session of this agent has already, the message
 * goes there.
 */
export type NewSessionInTransaction<AgentName extends string = string> = NewSession & Readonly<{ agent: AgentName }>;

/** A message that is stored when the caller's transaction commits. */
export type SentInTransaction = Readonly<{
  sessionId: string;
  messageId: string;
  runId: string;
  /** A run is at work that the message waits for. */
  queued: boolean;
  status: RunStatus;
}>;

/** Baton in one's own process. Its clients know the names of the agents that were given in code. */
export type Baton<AgentName extends string = string> = AsyncDisposable &
  Readonly<{
    /** The whole API without a port, for the tenant `default`. */
    client: BatonClient<AgentName>;
    /** The same for another tenant. */
    clientOf: (tenantId: string) => BatonClient<AgentName>;
    /** Answers a request of the API, for servers that speak `Request` and `Response`: Hono, Next.js. */
    fetch: (request: Request) => Promise<Response>;
    /** The same for Node's servers: Express, Fastify, `node:http`. */
    handler: (request: IncomingMessage, response: ServerResponse) => void;
    /**
     * Serves the API on a port of its own, where the settings `host` and `port` say, until Baton stops or the server is
     * disposed.
     * @throws BatonError `config_invalid` when the address cannot be bound; with `openWithoutKeys` also for an address
     * that is not loopback, unless there are keys or `allowPublicBind`
     */
    listen: () => Promise<AsyncDisposable & Readonly<{ url: string }>>;
    /** Takes jobs in this process until Baton stops or the worker is disposed. */
    startWorker: (options?: WorkerOptions) => Promise<AsyncDisposable>;
    /**
     * Sends a message as a part of the transaction that the client of `pg` is in: it is stored if that commits, and
     * never sent if that does not. The session stays locked until then, so commit soon.
     * @param session its id; `key:` and its key; or `{ agent, key }` of a session that the transaction creates unless
     * there is one with the key
     * @throws BatonError `invalid_request` outside of a transaction; `not_found`, `conflict` (the session with the key has
     * another agent, or another session has the message), `session_busy`, `inbox_full`, `quota_exceeded`
     */
    // As a method, so that Baton with known agents is one with any agents, too.
    sendIn(
      client: CallerClient,
      session: string | NewSessionInTransaction<AgentName>,
      content: Parameters<BatonClient['send']>[1],
      options?: SendInOptions,
    ): Promise<SentInTransaction>;
    /** API keys, with which people log in to the console, too. */
    keys: BatonKeys;
    /** Whether it works, and why not. */
    readiness: BatonClient['readiness'];
    /** Resolves with the cause when the embedded Postgres is gone for good. Never rejects. */
    lost: Promise<Error>;
    /**
     * Takes no more requests and jobs, gives running steps a grace time, hands back the others, and closes everything.
     * @param options.graceMs default: the setting `shutdownGraceMs`
     */
    stop: (options?: Readonly<{ graceMs?: number }>) => Promise<void>;
  }>;
