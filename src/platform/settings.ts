import { z } from 'zod';
import {
  DEFAULT_INBOX_BYTES,
  DEFAULT_INBOX_MESSAGES,
  FIRST_CHUNK_TIMEOUT_MS,
  HEARTBEAT_INTERVAL_MS,
  IDLE_CHUNK_TIMEOUT_MS,
  LEASE_DURATION_MS,
  MIN_BODIES_BYTES,
  STEP_TIMEOUT_MS,
} from '../domain/tunables.ts';
import { schemaNameSchema } from './database-schema.ts';
import {
  amount,
  databaseUrl,
  hostNames,
  hostsAndPorts,
  origins,
  traceUrl,
  url,
  wholeNumber,
  yesOrNo,
} from './setting-values.ts';

/** Default workspace of agents, relative to the working directory. */
export const DEFAULT_WORKSPACE_DIR = 'workspace';

/** Adds the setting's environment variable, and the description that docs/settings.md shows. */
const setting = <Schema extends z.ZodType>(variable: string, schema: Schema, description: string): Schema =>
  schema.meta({ variable, description });

const text = z.string();
const nonEmpty = z.string().min(1);

const stores = {
  databaseUrl: setting(
    'DATABASE_URL',
    databaseUrl.optional(),
    'URL of Postgres, version 14 or newer, without a pooler in transaction mode. Default: Baton starts an embedded Postgres in `dataDir`.',
  ),
  databasePassword: setting(
    'BATON_DATABASE_PASSWORD',
    nonEmpty.optional(),
    'Password of Postgres. Replaces the password in `databaseUrl` and needs no URL escapes.',
  ),
  schema: setting(
    'BATON_SCHEMA',
    schemaNameSchema.optional(),
    "Postgres schema for Baton's tables alone, beside the tables of another program. Default: the schema of the connection.",
  ),
  databaseConnections: setting(
    'BATON_DATABASE_CONNECTIONS',
    wholeNumber(2, 500).default(10),
    'Connections to Postgres for the queries of one process. A worker holds one more for its lock. The start is refused if Postgres allows fewer connections than the process may open.',
  ),
  dataDir: setting('BATON_DATA_DIR', text.default('.baton'), 'Folder for the files of the embedded Postgres.'),
  redisUrl: setting(
    'REDIS_URL',
    url('redis', 'rediss').optional(),
    'URL of Redis for queues and live events: version 6.2 or newer, `maxmemory-policy noeviction`, no Cluster. Default: queues and live events go over Postgres.',
  ),
  redisPassword: setting(
    'BATON_REDIS_PASSWORD',
    nonEmpty.optional(),
    'Password of Redis. Replaces the password in `redisUrl` and needs no URL escapes.',
  ),
  redisCaFile: setting(
    'BATON_REDIS_CA_FILE',
    nonEmpty.optional(),
    "PEM file with the CA certificates that verify a `rediss://` Redis. Default: Node's CA certificates.",
  ),
  redisSentinels: setting(
    'BATON_REDIS_SENTINELS',
    hostsAndPorts.refine((all) => all.length > 0, 'at least one host').optional(),
    'Redis Sentinels, such as `host1:26379,host2:26379`. The host of `redisUrl` is then the name of the master that the sentinels watch.',
  ),
  redisSentinelPassword: setting(
    'BATON_REDIS_SENTINEL_PASSWORD',
    nonEmpty.optional(),
    "Password of the sentinels, separate from the master's password.",
  ),
  queuePrefix: setting(
    'BATON_QUEUE_PREFIX',
    z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/, 'letters, digits, - and _, at most 64')
      .optional(),
    'Prefix of every key and channel in Redis. Default: `baton`, or with a schema `baton_` and the name of the schema.',
  ),
};

const access = {
  host: setting('BATON_HOST', text.default('127.0.0.1'), 'Address on which the API listens.'),
  port: setting('BATON_PORT', wholeNumber(0, 65_535).default(4400), 'Port of the API. 0: any free port.'),
  allowPublicBind: setting(
    'BATON_ALLOW_PUBLIC_BIND',
    yesOrNo.default(false),
    '`true`: the API may listen on a public address even without any API key, where every caller may do everything. Meant for a container whose port is published on loopback or behind a proxy that checks its callers.',
  ),
  allowedHosts: setting(
    'BATON_ALLOWED_HOSTS',
    hostNames.optional(),
    'Extra allowed host names of requests, besides the loopback names. Default: no extra names on loopback or while no API key exists, else any name.',
  ),
  corsOrigins: setting(
    'BATON_CORS_ORIGINS',
    origins.default([]),
    "Origins whose pages may call the API from a browser, such as `https://app.example`, with an API key or with what the library's `authenticate` accepts. A login of the console does not count. The start is refused while there is neither a key nor `authenticate`.",
  ),
  adminReadOnly: setting(
    'BATON_ADMIN_READ_ONLY',
    yesOrNo.default(true),
    '`true`: the board at `/admin/queues` shows the queues and changes nothing. `false`: jobs can be retried, removed and stopped there.',
  ),
};

const agents = {
  agentsDir: setting('BATON_AGENTS_DIR', text.default('agents'), 'Folder of the YAML files of the agents.'),
  workspaceDir: setting(
    'BATON_WORKSPACE_DIR',
    text.default(DEFAULT_WORKSPACE_DIR),
    'Root of the `workspace` tools, which read and write nothing outside of it. Created if missing. Must lie apart from agents, data and configuration.',
  ),
  defaultAgent: setting(
    'BATON_DEFAULT_AGENT',
    nonEmpty.optional(),
    'Agent for requests that name none. Default: the agent with `default: true`.',
  ),
  model: setting(
    'BATON_MODEL',
    z
      .string()
      .regex(/^[a-z0-9-]+\/.+$/, 'provider/model, for example openai/gpt-5.4')
      .optional(),
    'Model that replaces the model of every agent: `provider/model`.',
  ),
  openaiApiKey: setting('OPENAI_API_KEY', nonEmpty.optional(), 'API key of the providers `openai` and `openai-chat`.'),
  openaiBaseUrl: setting(
    'OPENAI_BASE_URL',
    url('http', 'https').optional(),
    "Base URL of the providers `openai` and `openai-chat`. Default: OpenAI's own.",
  ),
  anthropicApiKey: setting('ANTHROPIC_API_KEY', nonEmpty.optional(), 'API key of the provider `anthropic`.'),
  anthropicBaseUrl: setting(
    'ANTHROPIC_BASE_URL',
    url('http', 'https').optional(),
    "Base URL of the provider `anthropic`. Default: Anthropic's own.",
  ),
  modelsFile: setting(
    'BATON_MODELS_FILE',
    nonEmpty.optional(),
    'File (YAML or JSON) with a list of models (limits, prices, media types) that add to the known models or change them.',
  ),
  providersFile: setting(
    'BATON_PROVIDERS_FILE',
    nonEmpty.optional(),
    'File (YAML or JSON) with more providers by name: kind, base URL and the variables of their keys.',
  ),
  mcpFile: setting(
    'BATON_MCP_FILE',
    nonEmpty.optional(),
    'File (YAML or JSON) with the MCP servers that every agent may name.',
  ),
  hooksFile: setting(
    'BATON_HOOKS_FILE',
    nonEmpty.optional(),
    'File (YAML or JSON) with the hooks by which other services send messages.',
  ),
  httpToolsAllowPrivate: setting(
    'BATON_HTTP_TOOLS_ALLOW_PRIVATE',
    yesOrNo.default(false),
    '`true`: HTTP tools may reach private, loopback and link-local addresses, for any host.',
  ),
  httpToolsAllowedHosts: setting(
    'BATON_HTTP_TOOLS_ALLOWED_HOSTS',
    hostNames.default([]),
    'Hosts of HTTP tools that may be at any address. Other hosts are reached at public addresses only.',
  ),
  webhooksAllowPrivate: setting(
    'BATON_WEBHOOKS_ALLOW_PRIVATE',
    yesOrNo.default(false),
    '`true`: webhooks, whose URLs tenants choose, may reach private, loopback and link-local addresses.',
  ),
  webhooksAllowedHosts: setting(
    'BATON_WEBHOOKS_ALLOWED_HOSTS',
    hostsAndPorts.default([]),
    'Hosts of webhooks that may be at any address. `host:port` allows one port, `host` every port.',
  ),
  simulatorUrl: setting(
    'BATON_SIMULATOR_URL',
    url('http').optional(),
    'URL of the providers `simulated`, `simulated-background`, `simulated-chat` and `simulated-anthropic`. Default: these providers do not exist.',
  ),
};

const work = {
  processes: setting(
    'BATON_PROCESSES',
    z.union([z.literal('auto'), wholeNumber(1, 64)], 'expected auto or a whole number from 1 to 64').default('auto'),
    'Processes that take steps. `auto`: one per processor, as far as Postgres has connections, at most 4.',
  ),
  stepConcurrency: setting(
    'BATON_STEP_CONCURRENCY',
    wholeNumber(1, 10_000).default(50),
    'Most steps that one process works on at the same time. Tenants that have few of these get up to half as many more.',
  ),
  compactionConcurrency: setting(
    'BATON_COMPACTION_CONCURRENCY',
    wholeNumber(1, 10_000).default(20),
    'Most compactions of one process at the same time. Each compaction makes one model call or several.',
  ),
  pruneConcurrency: setting(
    'BATON_PRUNE_CONCURRENCY',
    wholeNumber(1, 10_000).default(10),
    'Most prunes of one process at the same time. A prune is short and calls no model.',
  ),
  deliveryConcurrency: setting(
    'BATON_DELIVERY_CONCURRENCY',
    wholeNumber(1, 10_000).default(100),
    'Most deliveries of one process to webhooks at the same time.',
  ),
  leaseDurationMs: setting(
    'BATON_LEASE_DURATION_MS',
    wholeNumber(500, 3_600_000).default(LEASE_DURATION_MS),
    'Milliseconds after which a worker that hangs loses its runs. A dead worker loses its runs at once.',
  ),
  heartbeatIntervalMs: setting(
    'BATON_HEARTBEAT_INTERVAL_MS',
    wholeNumber(100, 600_000).default(HEARTBEAT_INTERVAL_MS),
    'Milliseconds between two renewals of the lease of a worker, at most half of `leaseDurationMs`.',
  ),
  firstChunkTimeoutMs: setting(
    'BATON_FIRST_CHUNK_TIMEOUT_MS',
    wholeNumber(100, 3_600_000).default(FIRST_CHUNK_TIMEOUT_MS),
    'Longest silence of a model before the first chunk of its answer, in milliseconds. Then the call is retried.',
  ),
  idleChunkTimeoutMs: setting(
    'BATON_IDLE_CHUNK_TIMEOUT_MS',
    wholeNumber(100, 3_600_000).default(IDLE_CHUNK_TIMEOUT_MS),
    'Longest silence of a model between two chunks of its answer, in milliseconds. Then the call is retried.',
  ),
  stepTimeoutMs: setting(
    'BATON_STEP_TIMEOUT_MS',
    wholeNumber(100, 86_400_000).default(STEP_TIMEOUT_MS),
    "Longest time for the whole answer of a model, in milliseconds. Then the call is retried. An agent's `limits.stepTimeoutMs` overrides the setting.",
  ),
  messageSearch: setting(
    'BATON_MESSAGE_SEARCH',
    yesOrNo.default(true),
    '`true`: workers index the words of messages, and the search for sessions finds them. `false`: it finds words of titles, keys and metadata.',
  ),
  shutdownGraceMs: setting(
    'BATON_SHUTDOWN_GRACE_MS',
    wholeNumber(0, 3_600_000).default(10_000),
    'Milliseconds that running steps have after SIGTERM, before the worker hands them back.',
  ),
};

const limits = {
  tenantConcurrency: setting(
    'BATON_TENANT_CONCURRENCY',
    wholeNumber(0, 10_000).default(0),
    'Most claimed runs of a tenant at the same time, over all processes. Further runs are throttled. A run that waits for an answer does not count. 0: no limit.',
  ),
  requestsPerMinute: setting(
    'BATON_REQUESTS_PER_MINUTE',
    wholeNumber(0, 1_000_000).default(0),
    'Requests per minute and tenant, which its API keys and tokens share, counted in Redis, or by each process where there is no Redis. 0: no limit.',
  ),
  tenantRequests: setting(
    'BATON_TENANT_REQUESTS',
    wholeNumber(1, 10_000).default(8),
    'Most requests of a tenant that one process works on at the same time. Further requests wait in line.',
  ),
  streamsPerKey: setting(
    'BATON_STREAMS_PER_KEY',
    wholeNumber(1, 1_000_000).default(1_000),
    'Most event streams, completions and waits that one process holds open per API key. Further ones get 429 `rate_limited`.',
  ),
  streams: setting(
    'BATON_STREAMS',
    wholeNumber(1, 1_000_000).default(4_000),
    'Most event streams, completions and waits that one process holds open in total. Further ones get 429 `rate_limited`.',
  ),
  connections: setting(
    'BATON_CONNECTIONS',
    wholeNumber(1, 1_000_000).default(10_000),
    'Most connections of clients to one process. Further connections are closed at once.',
  ),
  bodyBytes: setting(
    'BATON_BODY_BYTES',
    wholeNumber(MIN_BODIES_BYTES, 68_719_476_736).optional(),
    'Bytes of request bodies that one process holds at the same time, of which a tenant may take a quarter. Further requests get 503 `intake_full` before their body is read. Default: an eighth of the heap, from 32 to 256 MiB.',
  ),
  tenantTokensPerDay: setting(
    'BATON_TENANT_TOKENS_PER_DAY',
    wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
    'Tokens that the runs which a tenant began on one day (UTC) may use. Beyond the quota new messages get 429 `quota_exceeded`, and accepted runs go on. 0: no limit.',
  ),
  tenantCostUsdPerDay: setting(
    'BATON_TENANT_COST_USD_PER_DAY',
    amount.default(0),
    'US dollars that the runs which a tenant began on one day (UTC) may cost. Beyond the quota new messages get 429 `quota_exceeded`, and accepted runs go on. 0: no limit.',
  ),
  tenantStoredBytes: setting(
    'BATON_TENANT_STORED_BYTES',
    wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
    'Bytes that a tenant may store. Beyond the quota new sessions, messages and files get 429 `storage_exceeded`. 0: no limit.',
  ),
  inboxMessages: setting(
    'BATON_INBOX_MESSAGES',
    wholeNumber(1, 10_000).default(DEFAULT_INBOX_MESSAGES),
    'Most queued or parked messages of a session. Further messages get 429 `inbox_full`.',
  ),
  inboxBytes: setting(
    'BATON_INBOX_BYTES',
    wholeNumber(1, 1_073_741_824).default(DEFAULT_INBOX_BYTES),
    'Most bytes of the queued or parked messages of a session. Further messages get 429 `inbox_full`, except for a message that is alone in the queue.',
  ),
  completionKeptDays: setting(
    'BATON_COMPLETION_KEPT_DAYS',
    wholeNumber(0, 36_500).default(30),
    'Days after the last request at which the session of an unnamed completion expires. 0: never.',
  ),
  mcpAnswerMs: setting(
    'BATON_MCP_ANSWER_MS',
    wholeNumber(0, 86_400_000).default(45_000),
    'Milliseconds that a call of `/mcp` waits for its run if its client takes no progress. Then its answer names the run, for which `continue_task` goes on waiting. 0: to the end of the run.',
  ),
  retentionDays: setting(
    'BATON_RETENTION_DAYS',
    wholeNumber(0, 36_500).default(0),
    'Days without activity after which workers delete sessions and all other old data, as `npm run retention` does. 0: only sessions past their `expiresAt`.',
  ),
};

const observation = {
  metricsPort: setting(
    'BATON_METRICS_PORT',
    wholeNumber(0, 65_535).optional(),
    'Port on which any process serves `/livez`, `/readyz` and `/metrics` alone, besides the API if the process has one. Default: no such port.',
  ),
  logLevel: setting(
    'BATON_LOG_LEVEL',
    z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
    "Least level of logged events: JSON lines on stdout, readable lines on a terminal. Prompts and keys are never logged. `debug` includes, unchecked, the lines of MCP servers' standard error and of the embedded Postgres.",
  ),
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    url('http', 'https').optional(),
    'Base URL of an OTLP receiver over HTTP, for spans. Default: no spans.',
  ),
  traceUrl: setting(
    'BATON_TRACE_URL',
    traceUrl.optional(),
    "URL of the page of a trace, such as `https://jaeger.example/trace/{traceId}`, to which the console's *Open trace* leads.",
  ),
  traceContent: setting(
    'BATON_TRACE_CONTENT',
    yesOrNo.default(false),
    '`true`: prompts, answers, and the inputs and results of tools go into spans.',
  ),
};

/** Every setting by its name, in the groups of docs/settings.md. */
export const SETTING_GROUPS = {
  'Postgres, Redis and queues': stores,
  'Address and access': access,
  'Agents, models and tools': agents,
  'Workers and time limits': work,
  'Quotas and bounds': limits,
  'Logs, metrics and traces': observation,
} as const;

/** Every setting, by its name in the optional file. */
export const configSchema = z.strictObject({ ...stores, ...access, ...agents, ...work, ...limits, ...observation });

export type Settings = z.infer<typeof configSchema>;

/** The environment variable of each setting. */
export const VARIABLES = Object.fromEntries(
  Object.entries(configSchema.shape).map(([name, schema]) => [name, schema.meta()?.['variable']]),
) as Readonly<Record<keyof Settings, string>>;
