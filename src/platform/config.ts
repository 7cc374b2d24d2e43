import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { didYouMean } from '../domain/did-you-mean.ts';
import { BatonError } from '../domain/errors.ts';
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
import { inSchema, schemaNameSchema } from './database-schema.ts';
import { fileProblems } from './file-problems.ts';
import { readYaml } from './read-yaml.ts';
import { withPassword } from './url-password.ts';

/** Variables are text. Only a text of digits counts as a number, unlike with a coercion. */
const wholeNumber = (minimum: number, maximum: number) => {
  const words = `expected a whole number from ${minimum} to ${maximum}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value),
    z.number(words).int(words).min(minimum, words).max(maximum, words),
  );
};
const PROCESSES_WORDS = 'expected auto or a whole number from 1 to 64';
const MAX_AMOUNT = 1_000_000_000;
const AMOUNT_WORDS = `expected a number from 0 to ${MAX_AMOUNT}`;
/** An amount of money, with or without decimals. */
const amount = z.preprocess(
  (value) => (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value),
  z.number(AMOUNT_WORDS).min(0, AMOUNT_WORDS).max(MAX_AMOUNT, AMOUNT_WORDS),
);
/** Host names, as a variable separated by commas. Ports are refused, because they would never match. */
const hostNames = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((host) => host.trim()) : value),
  z.array(
    z
      .string()
      .toLowerCase()
      .refine((host) => /^[a-z0-9._-]+$/.test(host) || isIPv6(host), 'names of hosts, without ports'),
  ),
);
/** `host`, or `host:port` for one port of it. */
const hostsAndPorts = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((host) => host.trim()) : value),
  z.array(
    z
      .string()
      .toLowerCase()
      .refine(
        (host) => /^([a-z0-9._-]+|\[[0-9a-f:.]+\](?=:))(:[1-9]\d{0,4})?$/.test(host) || isIPv6(host),
        'hosts, or host:port',
      ),
  ),
);
const ORIGIN_WORDS = 'origins of pages, such as https://app.example, without a path';
/** Origins of pages, as a variable separated by commas. */
const origins = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((origin) => origin.trim()) : value),
  z
    .array(z.string().refine((text) => /^https?:/.test(text) && URL.parse(text)?.origin === text, ORIGIN_WORDS))
    .max(100),
);
const TRACE_URL_WORDS = 'a URL with http:// or https:// that has {traceId} in it';
const url = (...protocols: string[]) =>
  z.url({ protocol: new RegExp(`^(${protocols.join('|')})$`), error: `a URL with ${protocols.join(':// or ')}://` });

/** The parameter `schema` is Prisma's. Ignored without a word, it would let the tables end up in another schema. */
const databaseUrl = url('postgres', 'postgresql').refine(
  (text) => !URL.canParse(text) || !new URL(text).searchParams.has('schema'),
  'a URL without schema=, which Postgres does not know: set BATON_SCHEMA',
);

/** Default workspace of agents, relative to the working directory. */
export const DEFAULT_WORKSPACE_DIR = 'workspace';

/** Every setting, by its name in the optional file. */
const configSchema = z.strictObject({
  /** Postgres. Absent: an embedded one is started in `dataDir`. */
  databaseUrl: databaseUrl.optional(),
  /** Replaces the password in `databaseUrl`; without URL escapes. */
  databasePassword: z.string().min(1).optional(),
  /** Postgres schema that Baton has to itself, beside another program's. Absent: that of the connection. */
  schema: schemaNameSchema.optional(),
  /** Redis for queues and live events. Absent: both use Postgres. */
  redisUrl: url('redis', 'rediss').optional(),
  /** Replaces the password in `redisUrl`; without URL escapes. */
  redisPassword: z.string().min(1).optional(),
  /** File (PEM) with the certificates of the CA that a `rediss://` URL is checked by. Absent: those of Node. */
  redisCaFile: z.string().min(1).optional(),
  /** Addresses of Redis Sentinels. The host of `redisUrl` is then the name of the master that they watch. */
  redisSentinels: hostsAndPorts.refine((all) => all.length > 0, 'at least one host').optional(),
  /** Password of the sentinels, which differs from that of the master. */
  redisSentinelPassword: z.string().min(1).optional(),
  host: z.string().default('127.0.0.1'),
  /**
   * While there is no API key every caller may do everything, so only loopback may be bound. `true` lifts that, for a
   * container whose port is published on loopback or behind a proxy that checks its callers.
   */
  allowPublicBind: z.stringbool().or(z.boolean()).default(false),
  /**
   * Host names, besides those of loopback, that requests may be addressed to. Absent: none on loopback or while there
   * is no API key, else any.
   */
  allowedHosts: hostNames.optional(),
  /** Origins whose pages may use the API and read its answers, with a key of their own. */
  corsOrigins: origins.default([]),
  /** 0: any free port. */
  port: wholeNumber(0, 65_535).default(4400),
  /** Files of the embedded Postgres. */
  dataDir: z.string().default('.baton'),
  /** Folder of the agents' YAML files. */
  agentsDir: z.string().default('agents'),
  /** The agent for requests that name none. Absent: the agents themselves say which. */
  defaultAgent: z.string().min(1).optional(),
  /** Root of the `workspace` tools, which read and write nothing outside of it. */
  workspaceDir: z.string().default(DEFAULT_WORKSPACE_DIR),
  /** Prefix of every key and channel in Redis. Default: `baton`; with a schema `baton_` and its name. */
  queuePrefix: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, 'letters, digits, - and _, at most 64')
    .optional(),
  /** Processes that take steps; `auto`: as many as there are processors and room in Postgres, at most 4. */
  processes: z.union([z.literal('auto'), wholeNumber(1, 64)], PROCESSES_WORDS).default('auto'),
  /** Most steps at the same time per process. */
  stepConcurrency: wholeNumber(1, 10_000).default(50),
  /** Most compactions at the same time per process. Each makes one model call or several. */
  compactionConcurrency: wholeNumber(1, 10_000).default(20),
  /** Most prunes at the same time per process. They are short and call no model. */
  pruneConcurrency: wholeNumber(1, 10_000).default(10),
  /** Most deliveries to webhooks at the same time per process. */
  deliveryConcurrency: wholeNumber(1, 10_000).default(100),
  /** Most claimed runs of a tenant at the same time, over all processes. Further ones are throttled. 0: no limit. */
  tenantConcurrency: wholeNumber(0, 10_000).default(0),
  /** Requests per minute and API key; 0: no limit. */
  requestsPerMinute: wholeNumber(0, 1_000_000).default(0),
  /** Most requests of a tenant that a process works on at the same time. Further ones wait in line. */
  tenantRequests: wholeNumber(1, 10_000).default(8),
  /** Most streams and waits that a process holds open at the same time, per API key and in total. */
  streamsPerKey: wholeNumber(1, 1_000_000).default(1_000),
  streams: wholeNumber(1, 1_000_000).default(4_000),
  /** Most client connections per process. Further ones are closed at once. */
  connections: wholeNumber(1, 1_000_000).default(10_000),
  /** Bytes of request bodies of all tenants that a process holds at the same time. Absent: by its heap. */
  bodyBytes: wholeNumber(MIN_BODIES_BYTES, 68_719_476_736).optional(),
  /** Use of a tenant's runs per day (UTC) from which its new messages are refused; 0: no limit. */
  tenantTokensPerDay: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
  tenantCostUsdPerDay: amount.default(0),
  /** Stored bytes of a tenant from which its new sessions, messages and files are refused; 0: no limit. */
  tenantStoredBytes: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
  /** Days after its last request when the session of an unnamed completion expires; 0: never. */
  completionKeptDays: wholeNumber(0, 36_500).default(30),
  /** Most queued or parked messages of a session, and most bytes of them. */
  inboxMessages: wholeNumber(1, 10_000).default(DEFAULT_INBOX_MESSAGES),
  inboxBytes: wholeNumber(1, 1_073_741_824).default(DEFAULT_INBOX_BYTES),
  /** Days without activity after which sessions, and all other old data, are deleted; 0: never. */
  retentionDays: wholeNumber(0, 36_500).default(0),
  /** Connections to Postgres for the service's own queries, per process. */
  databaseConnections: wholeNumber(2, 500).default(10),
  leaseDurationMs: wholeNumber(500, 3_600_000).default(LEASE_DURATION_MS),
  heartbeatIntervalMs: wholeNumber(100, 600_000).default(HEARTBEAT_INTERVAL_MS),
  /** Longest silence of a model before its first chunk, and between two chunks. Then the call is retried. */
  firstChunkTimeoutMs: wholeNumber(100, 3_600_000).default(FIRST_CHUNK_TIMEOUT_MS),
  idleChunkTimeoutMs: wholeNumber(100, 3_600_000).default(IDLE_CHUNK_TIMEOUT_MS),
  /** Longest time for a model's whole answer. Then the call is retried. */
  stepTimeoutMs: wholeNumber(100, 86_400_000).default(STEP_TIMEOUT_MS),
  /** Grace time of running steps on SIGTERM, before they are handed back. */
  shutdownGraceMs: wholeNumber(0, 3_600_000).default(10_000),
  /** Port of `/livez`, `/readyz` and `/metrics`, besides the API if the process has one. Absent: none. */
  metricsPort: wholeNumber(0, 65_535).optional(),
  /** Whether the board of the queues is read-only. Else jobs can be retried, removed and stopped there. */
  adminReadOnly: z.stringbool().or(z.boolean()).default(true),
  /** Base URL of an OTLP receiver over HTTP, for spans. Absent: no spans. */
  otlpEndpoint: url('http', 'https').optional(),
  /** URL of the page of a trace, to which the console links. */
  traceUrl: z
    .string()
    .refine((text) => /^https?:\/\//.test(text) && text.includes('{traceId}') && URL.canParse(text), TRACE_URL_WORDS)
    .optional(),
  /** Whether prompts, answers and the inputs of tools go into spans. */
  traceContent: z.stringbool().or(z.boolean()).default(false),
  logLevel: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  openaiApiKey: z.string().min(1).optional(),
  openaiBaseUrl: url('http', 'https').optional(),
  anthropicApiKey: z.string().min(1).optional(),
  anthropicBaseUrl: url('http', 'https').optional(),
  /** Replaces the model of every agent: `provider/model`. */
  model: z
    .string()
    .regex(/^[a-z0-9-]+\/.+$/, 'provider/model, for example openai/gpt-5.4')
    .optional(),
  /** File (YAML or JSON) with a list of entries that add models to the registry or change them. */
  modelsFile: z.string().min(1).optional(),
  /** File (YAML or JSON) with providers by name: kind, base URL and the variables of their keys. */
  providersFile: z.string().min(1).optional(),
  /** File (YAML or JSON) with the MCP servers that every agent may name. */
  mcpFile: z.string().min(1).optional(),
  /** File (YAML or JSON) with the hooks by which other services send messages. */
  hooksFile: z.string().min(1).optional(),
  /** Lets HTTP tools reach private, loopback and link-local addresses, for any host. */
  httpToolsAllowPrivate: z.stringbool().or(z.boolean()).default(false),
  /** Hosts of HTTP tools that may be at any address. */
  httpToolsAllowedHosts: hostNames.default([]),
  /** Lets webhooks reach private, loopback and link-local addresses. Tenants name their URLs. */
  webhooksAllowPrivate: z.stringbool().or(z.boolean()).default(false),
  /** Hosts of webhooks that may be at any address. */
  webhooksAllowedHosts: hostsAndPorts.default([]),
  /**
   * URL of the providers `simulated`, `simulated-background`, `simulated-chat` and `simulated-anthropic`. Absent: they
   * do not exist.
   */
  simulatorUrl: url('http').optional(),
});

type Settings = z.infer<typeof configSchema>;
/** The settings as a program gives them: by their names, all optional. */
export type GivenSettings = Readonly<Partial<z.input<typeof configSchema>>>;
/** The settings, and the path of the configuration file if there is one. */
export type Config = Readonly<Settings & { queuePrefix: string; configFile?: string }>;

/** The environment variable of each setting. */
export const VARIABLES: Readonly<Record<keyof Settings, string>> = {
  databaseUrl: 'DATABASE_URL',
  databasePassword: 'BATON_DATABASE_PASSWORD',
  schema: 'BATON_SCHEMA',
  redisUrl: 'REDIS_URL',
  redisPassword: 'BATON_REDIS_PASSWORD',
  redisCaFile: 'BATON_REDIS_CA_FILE',
  redisSentinels: 'BATON_REDIS_SENTINELS',
  redisSentinelPassword: 'BATON_REDIS_SENTINEL_PASSWORD',
  host: 'BATON_HOST',
  allowPublicBind: 'BATON_ALLOW_PUBLIC_BIND',
  allowedHosts: 'BATON_ALLOWED_HOSTS',
  corsOrigins: 'BATON_CORS_ORIGINS',
  port: 'BATON_PORT',
  dataDir: 'BATON_DATA_DIR',
  agentsDir: 'BATON_AGENTS_DIR',
  defaultAgent: 'BATON_DEFAULT_AGENT',
  workspaceDir: 'BATON_WORKSPACE_DIR',
  queuePrefix: 'BATON_QUEUE_PREFIX',
  processes: 'BATON_PROCESSES',
  stepConcurrency: 'BATON_STEP_CONCURRENCY',
  compactionConcurrency: 'BATON_COMPACTION_CONCURRENCY',
  pruneConcurrency: 'BATON_PRUNE_CONCURRENCY',
  deliveryConcurrency: 'BATON_DELIVERY_CONCURRENCY',
  tenantConcurrency: 'BATON_TENANT_CONCURRENCY',
  requestsPerMinute: 'BATON_REQUESTS_PER_MINUTE',
  tenantRequests: 'BATON_TENANT_REQUESTS',
  streamsPerKey: 'BATON_STREAMS_PER_KEY',
  streams: 'BATON_STREAMS',
  connections: 'BATON_CONNECTIONS',
  bodyBytes: 'BATON_BODY_BYTES',
  tenantTokensPerDay: 'BATON_TENANT_TOKENS_PER_DAY',
  tenantCostUsdPerDay: 'BATON_TENANT_COST_USD_PER_DAY',
  tenantStoredBytes: 'BATON_TENANT_STORED_BYTES',
  completionKeptDays: 'BATON_COMPLETION_KEPT_DAYS',
  inboxMessages: 'BATON_INBOX_MESSAGES',
  inboxBytes: 'BATON_INBOX_BYTES',
  retentionDays: 'BATON_RETENTION_DAYS',
  databaseConnections: 'BATON_DATABASE_CONNECTIONS',
  leaseDurationMs: 'BATON_LEASE_DURATION_MS',
  heartbeatIntervalMs: 'BATON_HEARTBEAT_INTERVAL_MS',
  firstChunkTimeoutMs: 'BATON_FIRST_CHUNK_TIMEOUT_MS',
  idleChunkTimeoutMs: 'BATON_IDLE_CHUNK_TIMEOUT_MS',
  stepTimeoutMs: 'BATON_STEP_TIMEOUT_MS',
  shutdownGraceMs: 'BATON_SHUTDOWN_GRACE_MS',
  metricsPort: 'BATON_METRICS_PORT',
  adminReadOnly: 'BATON_ADMIN_READ_ONLY',
  otlpEndpoint: 'OTEL_EXPORTER_OTLP_ENDPOINT',
  traceUrl: 'BATON_TRACE_URL',
  traceContent: 'BATON_TRACE_CONTENT',
  logLevel: 'BATON_LOG_LEVEL',
  openaiApiKey: 'OPENAI_API_KEY',
  openaiBaseUrl: 'OPENAI_BASE_URL',
  anthropicApiKey: 'ANTHROPIC_API_KEY',
  anthropicBaseUrl: 'ANTHROPIC_BASE_URL',
  model: 'BATON_MODEL',
  modelsFile: 'BATON_MODELS_FILE',
  providersFile: 'BATON_PROVIDERS_FILE',
  mcpFile: 'BATON_MCP_FILE',
  hooksFile: 'BATON_HOOKS_FILE',
  httpToolsAllowPrivate: 'BATON_HTTP_TOOLS_ALLOW_PRIVATE',
  httpToolsAllowedHosts: 'BATON_HTTP_TOOLS_ALLOWED_HOSTS',
  webhooksAllowPrivate: 'BATON_WEBHOOKS_ALLOW_PRIVATE',
  webhooksAllowedHosts: 'BATON_WEBHOOKS_ALLOWED_HOSTS',
  simulatorUrl: 'BATON_SIMULATOR_URL',
};

/** Names the optional configuration file (YAML or JSON). */
const FILE_VARIABLE = 'BATON_CONFIG';

/** Variables of tests and of clients share the prefix, but are no settings. */
const OTHER_VARIABLES = /^BATON_(TEST_.*|URL|API_KEY|WEBHOOK_SECRET)$/;

/**
 * The configuration from environment and file, the environment first. Parsed once, frozen.
 * @throws BatonError `config_invalid` that names every unknown variable or key and every bad value
 */
export function loadConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const known = new Set([...Object.values(VARIABLES), FILE_VARIABLE]);
  const unknown = Object.keys(environment).filter(
    (name) => name.startsWith('BATON_') && !known.has(name) && !OTHER_VARIABLES.test(name),
  );
  if (unknown.length > 0) {
    const named = unknown.map((name) => name + meantVariable(name, known));
    throw new BatonError('config_invalid', `unknown settings: ${named.join(', ')}`);
  }
  const fromEnvironment = Object.entries(VARIABLES).flatMap(([key, variable]) => {
    const value = environment[variable];
    return value === undefined || value === '' ? [] : [[key, value] as const];
  });
  const configFile = environment[FILE_VARIABLE] || undefined;
  const parsed = configSchema.safeParse({
    ...(configFile === undefined ? {} : readConfigFile(configFile)),
    ...Object.fromEntries(fromEnvironment),
  });
  if (parsed.success) {
    return Object.freeze({ ...toConfig(parsed.data), ...(configFile !== undefined && { configFile }) });
  }
  const problems = fileProblems(configSchema, parsed.error).map(({ path, message }) => {
    const variable = VARIABLES[path.split('.')[0] as keyof Settings];
    return variable === undefined ? `${FILE_VARIABLE}: ${message}` : `${variable} (${path}): ${message}`;
  });
  throw new BatonError('config_invalid', problems.join('; '), { cause: parsed.error });
}

/**
 * The configuration of a program that gives its settings as an object. The environment is not read.
 * @throws BatonError `config_invalid` that names every unknown or wrong setting
 */
export function configOf(settings: GivenSettings): Config {
  const parsed = configSchema.safeParse(settings);
  if (parsed.success) return Object.freeze(toConfig(parsed.data));
  const problems = fileProblems(configSchema, parsed.error).map(({ path, message }) => `${path}: ${message}`);
  throw new BatonError('config_invalid', problems.join('; '), { cause: parsed.error });
}

/**
 * Suggests a variable for an unknown one. The name is also tried without the prefix, which the databases' variables
 * lack.
 */
const meantVariable = (name: string, known: ReadonlySet<string>): string =>
  didYouMean(name, known) || didYouMean(name.replace(/^BATON_/, ''), known);

function toConfig(settings: Settings): Config {
  const { schema } = settings;
  const queuePrefix = settings.queuePrefix ?? (schema === undefined ? 'baton' : `baton_${schema}`);
  const config = withPasswords({ ...settings, queuePrefix });
  const { databaseUrl } = config;
  return withRenewableLease({
    ...config,
    ...(databaseUrl !== undefined && { databaseUrl: inSchema(databaseUrl, schema) }),
  });
}

/** Puts the passwords into the URLs, so that connecting needs only those. */
function withPasswords(config: Config): Config {
  const place = (url: 'databaseUrl' | 'redisUrl', key: 'databasePassword' | 'redisPassword') => {
    const [given, password] = [config[url], config[key]];
    return given === undefined || password === undefined
      ? {}
      : { [url]: withPassword(given, password, VARIABLES[key]) };
  };
  return { ...config, ...place('databaseUrl', 'databasePassword'), ...place('redisUrl', 'redisPassword') };
}

/** Refuses a lease that would end before its second heartbeat: every long step would lose it. */
function withRenewableLease(config: Config): Config {
  if (config.heartbeatIntervalMs * 2 <= config.leaseDurationMs) return config;
  throw new BatonError(
    'config_invalid',
    `${VARIABLES.heartbeatIntervalMs} (${config.heartbeatIntervalMs}) must be at most half of ${VARIABLES.leaseDurationMs} (${config.leaseDurationMs})`,
  );
}

function readConfigFile(path: string): object {
  const what = `${FILE_VARIABLE}: ${path}`;
  const content = z.record(z.string(), z.unknown()).safeParse(readYaml(path, what) ?? {});
  if (content.success) return content.data;
  throw new BatonError('config_invalid', `${what}: not settings by their names`, { cause: content.error });
}
