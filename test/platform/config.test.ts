import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import {
  FIRST_CHUNK_TIMEOUT_MS,
  HEARTBEAT_INTERVAL_MS,
  IDLE_CHUNK_TIMEOUT_MS,
  LEASE_DURATION_MS,
  STEP_TIMEOUT_MS,
} from '../../src/domain/tunables.ts';
import { loadConfig } from '../../src/platform/config.ts';

type Environment = Parameters<typeof loadConfig>[0];

/** The message with which the start refuses this environment. */
function refusal(environment: Environment): string {
  try {
    loadConfig(environment);
  } catch (error) {
    if (error instanceof BatonError && error.code === 'config_invalid') return error.message;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

type ConfigFile = Disposable & Readonly<{ path: string }>;

function configFile(content: string): ConfigFile {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-config-'));
  const file = path.join(folder, 'baton.yaml');
  writeFileSync(file, content);
  return { path: file, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

/** Each variable with a valid value, and the field of the configuration with the value that comes of it. */
const EVERY_VARIABLE = [
  ['DATABASE_URL', 'postgres://me:pw@db:5432/baton', 'databaseUrl', 'postgres://me:pw@db:5432/baton'],
  ['REDIS_URL', 'rediss://:pw@cache:6380/2', 'redisUrl', 'rediss://:pw@cache:6380/2'],
  ['BATON_DATABASE_PASSWORD', 'p@ss/w#1', 'databasePassword', 'p@ss/w#1'],
  ['BATON_REDIS_PASSWORD', '%41:?', 'redisPassword', '%41:?'],
  ['BATON_REDIS_CA_FILE', '/etc/ca.pem', 'redisCaFile', '/etc/ca.pem'],
  ['BATON_REDIS_SENTINELS', 's1:26379, s2', 'redisSentinels', ['s1:26379', 's2']],
  ['BATON_REDIS_SENTINEL_PASSWORD', 'x', 'redisSentinelPassword', 'x'],
  ['BATON_HOST', '0.0.0.0', 'host', '0.0.0.0'],
  ['BATON_ALLOW_PUBLIC_BIND', 'true', 'allowPublicBind', true],
  ['BATON_ALLOWED_HOSTS', 'Baton.example, fd00::1', 'allowedHosts', ['baton.example', 'fd00::1']],
  [
    'BATON_CORS_ORIGINS',
    'https://app.example, http://localhost:5173',
    'corsOrigins',
    ['https://app.example', 'http://localhost:5173'],
  ],
  ['BATON_PORT', '0', 'port', 0],
  ['BATON_DATA_DIR', '/var/lib/baton', 'dataDir', '/var/lib/baton'],
  ['BATON_AGENTS_DIR', '/etc/agents', 'agentsDir', '/etc/agents'],
  ['BATON_WORKSPACE_DIR', '/srv/files', 'workspaceDir', '/srv/files'],
  ['BATON_QUEUE_PREFIX', 'blue_green-1', 'queuePrefix', 'blue_green-1'],
  ['BATON_PROCESSES', '2', 'processes', 2],
  ['BATON_STEP_CONCURRENCY', '7', 'stepConcurrency', 7],
  ['BATON_TENANT_CONCURRENCY', '0', 'tenantConcurrency', 0],
  ['BATON_INBOX_MESSAGES', '20', 'inboxMessages', 20],
  ['BATON_INBOX_BYTES', '1000000', 'inboxBytes', 1_000_000],
  ['BATON_MESSAGE_SEARCH', 'false', 'messageSearch', false],
  ['BATON_RETENTION_DAYS', '30', 'retentionDays', 30],
  ['BATON_REQUESTS_PER_MINUTE', '600', 'requestsPerMinute', 600],
  ['BATON_TENANT_REQUESTS', '2', 'tenantRequests', 2],
  ['BATON_STREAMS_PER_KEY', '50', 'streamsPerKey', 50],
  ['BATON_STREAMS', '500', 'streams', 500],
  ['BATON_CONNECTIONS', '5000', 'connections', 5_000],
  ['BATON_BODY_BYTES', '67108864', 'bodyBytes', 67_108_864],
  ['BATON_TENANT_TOKENS_PER_DAY', '1000000', 'tenantTokensPerDay', 1_000_000],
  ['BATON_TENANT_COST_USD_PER_DAY', '12.5', 'tenantCostUsdPerDay', 12.5],
  ['BATON_TENANT_STORED_BYTES', '1000000', 'tenantStoredBytes', 1_000_000],
  ['BATON_COMPLETION_KEPT_DAYS', '7', 'completionKeptDays', 7],
  ['BATON_MCP_ANSWER_MS', '1000', 'mcpAnswerMs', 1_000],
  ['BATON_COMPACTION_CONCURRENCY', '6', 'compactionConcurrency', 6],
  ['BATON_PRUNE_CONCURRENCY', '5', 'pruneConcurrency', 5],
  ['BATON_DATABASE_CONNECTIONS', '20', 'databaseConnections', 20],
  ['BATON_LEASE_DURATION_MS', '45000', 'leaseDurationMs', 45_000],
  ['BATON_HEARTBEAT_INTERVAL_MS', '1000', 'heartbeatIntervalMs', 1_000],
  ['BATON_FIRST_CHUNK_TIMEOUT_MS', '60000', 'firstChunkTimeoutMs', 60_000],
  ['BATON_IDLE_CHUNK_TIMEOUT_MS', '100', 'idleChunkTimeoutMs', 100],
  ['BATON_STEP_TIMEOUT_MS', '600000', 'stepTimeoutMs', 600_000],
  ['BATON_SHUTDOWN_GRACE_MS', '0', 'shutdownGraceMs', 0],
  ['BATON_ADMIN_READ_ONLY', 'false', 'adminReadOnly', false],
  ['BATON_TRACE_CONTENT', 'true', 'traceContent', true],
  ['BATON_TRACE_URL', 'https://traces.example/{traceId}', 'traceUrl', 'https://traces.example/{traceId}'],
  ['BATON_LOG_LEVEL', 'silent', 'logLevel', 'silent'],
  ['OPENAI_API_KEY', 'sk-123', 'openaiApiKey', 'sk-123'],
  ['OPENAI_BASE_URL', 'https://gateway.example/v1', 'openaiBaseUrl', 'https://gateway.example/v1'],
  ['ANTHROPIC_API_KEY', 'sk-ant-1', 'anthropicApiKey', 'sk-ant-1'],
  ['ANTHROPIC_BASE_URL', 'https://gateway.example/v1', 'anthropicBaseUrl', 'https://gateway.example/v1'],
  ['BATON_MODEL', 'openai/gpt-5.4', 'model', 'openai/gpt-5.4'],
  ['BATON_MODELS_FILE', '/etc/models.yaml', 'modelsFile', '/etc/models.yaml'],
  ['BATON_PROVIDERS_FILE', '/etc/providers.yaml', 'providersFile', '/etc/providers.yaml'],
  ['BATON_MCP_FILE', '/etc/mcp.yaml', 'mcpFile', '/etc/mcp.yaml'],
  ['BATON_HTTP_TOOLS_ALLOW_PRIVATE', 'true', 'httpToolsAllowPrivate', true],
  ['BATON_HTTP_TOOLS_ALLOWED_HOSTS', 'Tools.internal, ::1', 'httpToolsAllowedHosts', ['tools.internal', '::1']],
  ['BATON_HOOKS_FILE', '/etc/hooks.yaml', 'hooksFile', '/etc/hooks.yaml'],
  ['BATON_WEBHOOKS_ALLOW_PRIVATE', 'true', 'webhooksAllowPrivate', true],
  [
    'BATON_WEBHOOKS_ALLOWED_HOSTS',
    'hooks.internal,[::1]:80,a:8080',
    'webhooksAllowedHosts',
    ['hooks.internal', '[::1]:80', 'a:8080'],
  ],
  ['BATON_DELIVERY_CONCURRENCY', '7', 'deliveryConcurrency', 7],
  ['BATON_SIMULATOR_URL', 'http://127.0.0.1:4500', 'simulatorUrl', 'http://127.0.0.1:4500'],
] as const;

describe('the configuration', () => {
  it('needs nothing: an embedded database, loopback, no key', () => {
    expect(loadConfig({ PATH: '/bin', HOME: '/home/me' })).toEqual({
      host: '127.0.0.1',
      allowPublicBind: false,
      corsOrigins: [],
      port: 4400,
      dataDir: '.baton',
      agentsDir: 'agents',
      workspaceDir: 'workspace',
      queuePrefix: 'baton',
      processes: 'auto',
      stepConcurrency: 50,
      tenantConcurrency: 0,
      inboxMessages: 100,
      inboxBytes: 4_194_304,
      retentionDays: 0,
      messageSearch: true,
      requestsPerMinute: 0,
      tenantRequests: 8,
      streamsPerKey: 1_000,
      streams: 4_000,
      connections: 10_000,
      tenantTokensPerDay: 0,
      tenantCostUsdPerDay: 0,
      tenantStoredBytes: 0,
      completionKeptDays: 30,
      mcpAnswerMs: 45_000,
      compactionConcurrency: 20,
      pruneConcurrency: 10,
      databaseConnections: 10,
      leaseDurationMs: LEASE_DURATION_MS,
      heartbeatIntervalMs: HEARTBEAT_INTERVAL_MS,
      firstChunkTimeoutMs: FIRST_CHUNK_TIMEOUT_MS,
      idleChunkTimeoutMs: IDLE_CHUNK_TIMEOUT_MS,
      stepTimeoutMs: STEP_TIMEOUT_MS,
      shutdownGraceMs: 10_000,
      adminReadOnly: true,
      traceContent: false,
      logLevel: 'info',
      httpToolsAllowPrivate: false,
      httpToolsAllowedHosts: [],
      webhooksAllowPrivate: false,
      webhooksAllowedHosts: [],
      deliveryConcurrency: 100,
    });
  });

  it.each(EVERY_VARIABLE)('takes %s=%s as %s', (variable, value, key, parsed) => {
    expect(loadConfig({ [variable]: value })).toMatchObject({ [key]: parsed });
  });

  it('has an example above for every setting', () => {
    const everything = loadConfig(Object.fromEntries(EVERY_VARIABLE.map(([variable, value]) => [variable, value])));
    expect(Object.keys(everything).sort()).toEqual(EVERY_VARIABLE.map(([, , key]) => key).toSorted());
  });

  it('counts an empty variable as not set', () => {
    const empty = Object.fromEntries(EVERY_VARIABLE.map(([variable]) => [variable, '']));
    expect(loadConfig({ ...empty, BATON_CONFIG: '' })).toEqual(loadConfig({}));
  });

  it.each([
    ['true', true],
    ['1', true],
    ['yes', true],
    ['on', true],
    ['false', false],
    ['0', false],
    ['no', false],
    ['off', false],
  ])('reads %j as %s where it says whether to bind publicly', (value, allowed) => {
    expect(loadConfig({ BATON_ALLOW_PUBLIC_BIND: value }).allowPublicBind).toBe(allowed);
  });

  it('cannot be changed', () => {
    const config = loadConfig({});
    expect(Object.isFrozen(config)).toBe(true);
    expect(() => Object.assign(config, { host: '0.0.0.0' })).toThrow(TypeError);
  });

  it('refuses every unknown setting by name, and leaves those of the tests alone', () => {
    const message = refusal({ BATON_PROT: '1', BATON_REDIS_URL: 'redis://x', BATON_TEST_SERVICES: 'embedded' });
    expect(message).toBe(
      'unknown settings: BATON_PROT (did you mean "BATON_PORT"?), BATON_REDIS_URL (did you mean "REDIS_URL"?)',
    );
  });

  it.each([
    ['DATABASE_URL', 'mysql://db'],
    ['DATABASE_URL', 'not a url'],
    ['DATABASE_URL', 'postgres://db/baton?schema=app'],
    ['REDIS_URL', 'http://cache'],
    ['BATON_ALLOW_PUBLIC_BIND', 'maybe'],
    ['BATON_HTTP_TOOLS_ALLOW_PRIVATE', 'some'],
    ['BATON_HTTP_TOOLS_ALLOWED_HOSTS', 'http://tools.internal/'],
    ['BATON_HTTP_TOOLS_ALLOWED_HOSTS', 'tools.internal:8080'],
    ['BATON_ALLOWED_HOSTS', 'https://baton.example'],
    ['BATON_ALLOWED_HOSTS', 'baton.example:443'],
    ['BATON_ALLOWED_HOSTS', 'baton.example,'],
    ['BATON_PORT', '65536'],
    ['BATON_PORT', '-1'],
    ['BATON_PORT', '80.5'],
    ['BATON_PORT', 'http'],
    ['BATON_PORT', ' '],
    ['BATON_PORT', '0x10'],
    ['BATON_QUEUE_PREFIX', 'a:b'],
    ['BATON_QUEUE_PREFIX', 'p'.repeat(65)],
    ['BATON_PROCESSES', '0'],
    ['BATON_STEP_CONCURRENCY', '0'],
    ['BATON_COMPACTION_CONCURRENCY', '0'],
    ['BATON_PRUNE_CONCURRENCY', 'many'],
    ['BATON_DATABASE_CONNECTIONS', '1'],
    ['BATON_LEASE_DURATION_MS', '10'],
    ['BATON_HEARTBEAT_INTERVAL_MS', '99'],
    ['BATON_FIRST_CHUNK_TIMEOUT_MS', '99'],
    ['BATON_IDLE_CHUNK_TIMEOUT_MS', '3600001'],
    ['BATON_SHUTDOWN_GRACE_MS', '-1'],
    ['BATON_LOG_LEVEL', 'loud'],
    ['BATON_TRACE_URL', 'https://traces.example/'],
    ['BATON_TRACE_URL', 'javascript:alert({traceId})'],
    ['OPENAI_BASE_URL', 'ftp://gateway'],
    ['ANTHROPIC_BASE_URL', 'ftp://gateway'],
    ['BATON_MODEL', 'gpt-5.4'],
    ['BATON_SIMULATOR_URL', 'https://127.0.0.1:4500'],
  ])('refuses %s=%j and names the variable', (variable, value) => {
    expect(refusal({ [variable]: value })).toContain(variable);
  });

  it('says which numbers a setting takes', () => {
    for (const value of ['many', '0', '10001', '1.5']) {
      const words = 'BATON_STEP_CONCURRENCY (stepConcurrency): expected a whole number from 1 to 10000';
      expect(refusal({ BATON_STEP_CONCURRENCY: value })).toBe(words);
    }
    expect(refusal({ BATON_PROCESSES: 'many' })).toBe(
      'BATON_PROCESSES (processes): expected auto or a whole number from 1 to 64',
    );
    const words = 'BATON_TENANT_COST_USD_PER_DAY (tenantCostUsdPerDay): expected a number from 0 to 1000000000';
    expect(refusal({ BATON_TENANT_COST_USD_PER_DAY: 'much' })).toBe(words);
  });

  it('names all bad values at once, and repeats none of them', () => {
    const message = refusal({ DATABASE_URL: 'mysql://me:hunter2@db', BATON_PORT: 'x', OPENAI_API_KEY: 'sk-secret' });
    expect(message).toContain('DATABASE_URL');
    expect(message).toContain('BATON_PORT');
    expect(message).not.toMatch(/hunter2|sk-secret/);
  });

  it('takes any whole number in its range and refuses every other string as a port', () => {
    fc.assert(
      fc.property(fc.oneof(fc.nat(70_000).map(String), fc.string({ minLength: 1 })), (value) => {
        const valid = /^\d+$/.test(value) && Number(value) <= 65_535;
        if (valid) expect(loadConfig({ BATON_PORT: value }).port).toBe(Number(value));
        else expect(refusal({ BATON_PORT: value })).toContain('BATON_PORT');
      }),
    );
  });
});

describe('the configuration file', () => {
  it('is read where BATON_CONFIG names it, and the environment takes precedence', () => {
    using file = configFile('port: 5000\nhost: "::1"\nallowPublicBind: true\nstepConcurrency: 3\n');
    const config = loadConfig({ BATON_CONFIG: file.path, BATON_PORT: '6000' });
    expect(config).toMatchObject({ port: 6000, host: '::1', allowPublicBind: true, stepConcurrency: 3 });
  });

  it('may be JSON, and may be empty', () => {
    using json = configFile('{"logLevel": "debug"}');
    using empty = configFile('# nothing yet\n');
    expect(loadConfig({ BATON_CONFIG: json.path }).logLevel).toBe('debug');
    expect(loadConfig({ BATON_CONFIG: empty.path })).toEqual({ ...loadConfig({}), configFile: empty.path });
  });

  it('is refused with the name of a key that is unknown', () => {
    using file = configFile('prot: 5000\nport: 5000\n');
    expect(refusal({ BATON_CONFIG: file.path })).toContain('"prot"');
  });

  it.each(['port: many', 'port: null', 'port: true', 'port: ""', 'port: [80]', 'port: 1.5'])(
    'is refused with the name of the key when it says %s',
    (content) => {
      using file = configFile(content);
      expect(refusal({ BATON_CONFIG: file.path })).toContain('(port)');
    },
  );

  it.each(['- a list', 'just text', 'port: [1'])('is refused by its path when it holds %j', (content) => {
    using file = configFile(content);
    expect(refusal({ BATON_CONFIG: file.path })).toContain(file.path);
  });

  it('is refused by its path when it is not there', () => {
    expect(refusal({ BATON_CONFIG: '/nowhere/baton.yaml' })).toContain('/nowhere/baton.yaml');
  });

  it('refuses a heartbeat that comes too seldom for its lease', () => {
    const environment = { BATON_LEASE_DURATION_MS: '5000', BATON_HEARTBEAT_INTERVAL_MS: '3000' };
    expect(() => loadConfig(environment)).toThrow(/BATON_HEARTBEAT_INTERVAL_MS.*BATON_LEASE_DURATION_MS/);
  });

  it('puts passwords of any characters into the URLs that they belong to', () => {
    const anyPassword = fc.string({ minLength: 1, unit: 'grapheme' }).filter((text) => !text.includes('\0'));
    fc.assert(
      fc.property(anyPassword, (password) => {
        const { databaseUrl = '', redisUrl } = loadConfig({
          DATABASE_URL: 'postgres://baton:old@postgres:5432/baton',
          REDIS_URL: 'redis://redis:6379',
          BATON_DATABASE_PASSWORD: password,
          BATON_REDIS_PASSWORD: password,
        });
        const client = new pg.Client(databaseUrl);
        expect([client.user, client.host, client.database, client.password]).toEqual([
          'baton',
          'postgres',
          'baton',
          password,
        ]);
        expect(decodeURIComponent(new URL(redisUrl ?? '').password)).toBe(password);
      }),
      { examples: [['p@ss/w#1'], ['%41 %'], ['\'quo"ted$:']] },
    );
    expect(refusal({ DATABASE_URL: 'postgres:///baton', BATON_DATABASE_PASSWORD: 'x' })).toMatch(/no host/);
  });
});
