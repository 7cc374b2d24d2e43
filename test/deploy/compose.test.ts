import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { MAX_AUTO_PROCESSES } from '../../src/domain/connection-budget.ts';
import { QUEUE_NAMES } from '../../src/domain/run/job.ts';
import { COMMAND_LIMITS } from '../../src/domain/tunables.ts';
import { loadConfig } from '../../src/platform/config.ts';
import {
  type ComposeService,
  environmentOf,
  ROOT,
  readComposeFile,
  toMegabytes,
  toMs,
  writablePlaces,
} from './compose-file.ts';
import { runNode } from './process.ts';

const { services, volumes } = readComposeFile();
const workers = Object.values(QUEUE_NAMES);
const processes = ['api', ...workers];
const names = Object.keys(services);
const ours = Object.entries(services).filter(([, service]) => service.build !== undefined);
const serviceOf = (name: string): ComposeService => {
  const service = services[name];
  if (service === undefined) throw new Error(`there is no service ${name}`);
  return service;
};
/** Time for open responses after the grace time of the steps, see src/http/server.ts. */
const CLOSE_TIME_MS = 5_000;

describe('docker-compose.yml', () => {
  it('runs Postgres, Redis, one migration, the API and workers for every queue', () => {
    expect(names).toEqual(['postgres', 'redis', 'migrate', ...processes]);
    expect(ours.map(([name]) => name)).toEqual(['migrate', ...processes]);
    for (const queue of Object.values(QUEUE_NAMES)) {
      expect(serviceOf(queue).command, queue).toEqual(['node', `workers/${queue}.ts`]);
    }
  });

  it('takes the stores in versions that stay what they are, the same as the tests', () => {
    const tested = readFileSync(path.join(ROOT, 'test/support/find-services.ts'), 'utf8');
    for (const name of ['postgres', 'redis']) {
      const { image } = serviceOf(name);
      expect(image).toMatch(/^[a-z]+:\d+\.\d+$/);
      expect(tested).toContain(`'${image}-alpine'`);
    }
  });

  it.each(ours)('gives %s only settings that the service knows', (_name, service) => {
    const config = loadConfig(environmentOf(service));
    expect(new URL(config.databaseUrl ?? '').hostname).toBe('postgres');
    expect(new URL(config.redisUrl ?? '').hostname).toBe('redis');
    expect(names).toEqual(expect.arrayContaining(['postgres', 'redis']));
  });

  it('gives Postgres and Redis the accounts that the service uses, with other passwords too, of any characters', () => {
    const odd = { POSTGRES_PASSWORD: 'p@ss/w#1%41?', REDIS_PASSWORD: 'r:@/#%20' };
    for (const given of [{}, odd]) {
      const file = readComposeFile(given).services;
      const api = file['api'];
      if (api === undefined) throw new Error('there is no service api');
      const config = loadConfig(environmentOf(api));
      const [database, redis] = [new URL(config.databaseUrl ?? ''), new URL(config.redisUrl ?? '')];
      expect(file['postgres']?.environment).toEqual({
        POSTGRES_USER: database.username,
        POSTGRES_PASSWORD: decodeURIComponent(database.password),
        POSTGRES_DB: database.pathname.slice(1),
      });
      const password = decodeURIComponent(redis.password);
      expect(file['redis']?.command?.slice(1, 3)).toEqual(['--requirepass', password]);
      expect(file['redis']?.environment).toEqual({ REDISCLI_AUTH: password });
      expect(password).toBe('REDIS_PASSWORD' in given ? odd.REDIS_PASSWORD : 'baton');
    }
  });

  it.each(processes)('passes the model and its key on to %s and knows no key itself', (name) => {
    const host = {
      OPENAI_API_KEY: 'from-outside',
      OPENAI_BASE_URL: 'http://127.0.0.1:9',
      ANTHROPIC_API_KEY: 'also-from-outside',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:8',
      BATON_MODEL: 'openai/some',
      BATON_PROVIDERS_FILE: '/app/agents/providers/own.yaml',
      BATON_MODELS_FILE: '/app/agents/models/own.yaml',
      BATON_MCP_FILE: '/app/agents/mcp/own.yaml',
    };
    expect(loadConfig(environmentOf(serviceOf(name), host))).toMatchObject({
      openaiApiKey: host.OPENAI_API_KEY,
      openaiBaseUrl: host.OPENAI_BASE_URL,
      anthropicApiKey: host.ANTHROPIC_API_KEY,
      anthropicBaseUrl: host.ANTHROPIC_BASE_URL,
      model: host.BATON_MODEL,
      providersFile: host.BATON_PROVIDERS_FILE,
      modelsFile: host.BATON_MODELS_FILE,
      mcpFile: host.BATON_MCP_FILE,
    });
    const alone = loadConfig(environmentOf(serviceOf(name)));
    expect([alone.openaiApiKey, alone.anthropicApiKey]).toEqual([undefined, undefined]);
  });

  it.each(processes)('gives %s every setting of a file .env, and the keys that agents and servers name', (name) => {
    const settings = {
      BATON_REQUESTS_PER_MINUTE: '600',
      BATON_TENANT_TOKENS_PER_DAY: '1000000',
      BATON_TENANT_COST_USD_PER_DAY: '12.5',
      BATON_TENANT_STORED_BYTES: '1000000',
      BATON_COMPLETION_KEPT_DAYS: '7',
      BATON_MESSAGE_SEARCH: 'false',
      BATON_TENANT_CONCURRENCY: '4',
      BATON_ADMIN_READ_ONLY: 'false',
      BATON_DEFAULT_AGENT: 'workspace',
      BATON_STEP_CONCURRENCY: '20',
      BATON_MODEL: 'openai/some',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
    };
    const keys = { GATEWAY_KEY: 'k', TICKETS_TOKEN: 't', TICKETS_SECRET: 's' };
    const environment = environmentOf(serviceOf(name), {}, { ...settings, ...keys });
    expect(environment).toMatchObject(keys);
    expect(loadConfig(environment)).toMatchObject({
      requestsPerMinute: 600,
      tenantTokensPerDay: 1_000_000,
      tenantCostUsdPerDay: 12.5,
      tenantConcurrency: 4,
      adminReadOnly: false,
      defaultAgent: settings.BATON_DEFAULT_AGENT,
      stepConcurrency: 20,
      model: settings.BATON_MODEL,
      otlpEndpoint: settings.OTEL_EXPORTER_OTLP_ENDPOINT,
    });
  });

  it.each(processes)('keeps where %s finds the others and is found, whatever is in .env', (name) => {
    const elsewhere = {
      DATABASE_URL: 'postgres://postgres@127.0.0.1:5432/mine',
      REDIS_URL: 'redis://127.0.0.1:6379',
      ...(name === 'api' ? { BATON_PORT: '5000' } : { BATON_METRICS_PORT: '5001', BATON_SHUTDOWN_GRACE_MS: '600000' }),
      BATON_HOST: '127.0.0.1',
      BATON_ALLOW_PUBLIC_BIND: 'false',
    };
    const service = serviceOf(name);
    expect(environmentOf(service, {}, elsewhere)).toEqual(environmentOf(service));
    expect(Object.keys(environmentOf(service))).toEqual(expect.arrayContaining(Object.keys(elsewhere)));
  });

  it.each(names)('starts %s after services that can get ready, with volumes that exist', (name) => {
    for (const [target, { condition }] of Object.entries(serviceOf(name).depends_on ?? {})) {
      const { restart, healthcheck = {} } = serviceOf(target);
      if (condition === 'service_healthy') expect(healthcheck, target).toHaveProperty('test');
      // A service that is always restarted never completes.
      if (condition === 'service_completed_successfully') expect(restart, target).toBe('no');
    }
    for (const volume of serviceOf(name).volumes ?? []) {
      const [source = ''] = volume.split(':');
      if (!source.startsWith('.')) expect(Object.keys(volumes)).toContain(source);
    }
  });

  it('starts the processes only on a migrated database', () => {
    for (const name of processes) {
      expect(serviceOf(name).depends_on).toEqual({
        migrate: { condition: 'service_completed_successfully' },
        postgres: { condition: 'service_healthy' },
        redis: { condition: 'service_healthy' },
      });
    }
  });

  it('publishes the API on loopback and nothing else', () => {
    const api = serviceOf('api');
    const config = loadConfig(environmentOf(api));
    expect(api.ports).toEqual([`127.0.0.1:4400:${config.port}`]);
    expect(config).toMatchObject({ host: '0.0.0.0', allowPublicBind: true });
    expect(config.allowedHosts).toBeUndefined();
    const named = loadConfig(environmentOf(api, { BATON_ALLOWED_HOSTS: 'api,baton.example' }));
    expect(named.allowedHosts).toEqual(['api', 'baton.example']);
    const others = Object.entries(services).filter(([name]) => name !== 'api');
    for (const [name, { ports }] of others) expect(ports, name).toBeUndefined();
  });

  it.each(workers)('lets %s remove what is old where that is asked for', (name) => {
    expect(loadConfig(environmentOf(serviceOf(name), { BATON_RETENTION_DAYS: '30' })).retentionDays).toBe(30);
    expect(loadConfig(environmentOf(serviceOf(name))).retentionDays).toBe(0);
  });

  it.each(workers)('asks %s whether it lives, where it answers', async (name) => {
    const { healthcheck } = serviceOf(name);
    const [kind, ...command] = healthcheck !== undefined && 'test' in healthcheck ? healthcheck.test : [];
    expect(kind).toBe('CMD');
    const { metricsPort } = loadConfig(environmentOf(serviceOf(name)));
    expect(metricsPort).toBeGreaterThan(1_024);
    const asked: (string | undefined)[] = [];
    const answers = createServer((request, response) => {
      asked.push(request.url);
      response.writeHead(asked.length === 1 ? 200 : 503).end();
    });
    await once(answers.listen(0, '127.0.0.1'), 'listening');
    const port = String((answers.address() as AddressInfo).port);
    const check = () =>
      runNode(command.slice(1), { cwd: ROOT, environment: { BATON_METRICS_PORT: port } }).ended.then(
        ({ code }) => code,
      );
    expect([command[0], await check(), await check()]).toEqual(['node', 0, 1]);
    expect(asked).toEqual(['/livez', '/livez']);
    await new Promise((resolve) => answers.close(resolve));
    expect(await check()).toBe(1);
  });

  it.each(workers)('lets a Prometheus beside %s ask for its metrics', (name) => {
    expect(loadConfig(environmentOf(serviceOf(name)))).toMatchObject({ host: '0.0.0.0', allowPublicBind: true });
  });

  it.each(workers)('can run %s any number of times', (name) => {
    expect(serviceOf(name).container_name).toBeUndefined();
    expect(serviceOf(name).ports).toBeUndefined();
  });

  it.each(processes)('gives %s the time to end in order, and starts it again', (name) => {
    const { init, restart, stop_grace_period = '10s', environment } = serviceOf(name);
    expect(init).toBe(true);
    expect(restart).toBe('unless-stopped');
    const { shutdownGraceMs } = loadConfig(environmentOf({ ...serviceOf(name), environment }));
    expect(toMs(stop_grace_period)).toBeGreaterThan(shutdownGraceMs + CLOSE_TIME_MS);
  });

  it('keeps what is in the queue: nothing evicted, every second on disk', () => {
    const command = serviceOf('redis').command ?? [];
    const option = (name: string): string | undefined => command[command.indexOf(`--${name}`) + 1];
    expect(command[0]).toBe('redis-server');
    expect(option('maxmemory-policy')).toBe('noeviction');
    expect(option('appendonly')).toBe('yes');
    expect(option('appendfsync')).toBe('everysec');
    expect(serviceOf('redis').volumes).toContain('redis-data:/data');
    expect(serviceOf('postgres').volumes).toContain('postgres-data:/var/lib/postgresql/data');
  });

  it.each(names)('gives %s no file system to write to, no capability, no root and a bound on memory', (name) => {
    const { read_only, cap_drop, cap_add, security_opt, mem_limit, user, build } = serviceOf(name);
    expect({ read_only, cap_drop, cap_add, security_opt }).toEqual({
      read_only: true,
      cap_drop: ['ALL'],
      cap_add: undefined,
      security_opt: ['no-new-privileges:true'],
    });
    expect(toMegabytes(mem_limit)).toBeGreaterThan(0);
    // Without capabilities an image that starts as root could not become the account of its server.
    expect(user).toBe(build === undefined ? name : undefined);
  });

  it('has a place for all that is written', () => {
    const placesOf = (name: string): string[] => [...writablePlaces(serviceOf(name)).keys()];
    expect(placesOf('postgres')).toEqual(['/tmp', '/var/run/postgresql', '/var/lib/postgresql/data']);
    expect(placesOf('redis')).toEqual(['/tmp', '/data']);
    for (const [name] of ours) {
      expect(placesOf(name)).toEqual(['/tmp', '/home/node', ...(name === 'steps' ? ['/workspace'] : [])]);
    }
    for (const [name, service] of Object.entries(services)) {
      for (const [place, options] of writablePlaces(service)) {
        if (options === null) continue;
        const isOpen = options.includes('mode=1777') || options.includes('uid=1000');
        expect([name, place, isOpen]).toEqual([name, place, true]);
        const size = options.find((option) => option.startsWith('size='))?.slice('size='.length);
        expect(toMegabytes(size), `${name} ${place}`).toBeLessThanOrEqual(toMegabytes(service.mem_limit) / 2);
        // Builds, and MCP servers that npx fetches, run what they have written.
        if (service.build !== undefined)
          expect([name, place, options]).toEqual([name, place, expect.arrayContaining(['exec'])]);
      }
    }
  });

  it('leaves memory for what the processes need beside what they bound themselves', () => {
    const [, heap] = /--max-old-space-size=(\d+)/.exec(String(environmentOf(serviceOf('steps'))['NODE_OPTIONS'])) ?? [];
    expect(toMegabytes(serviceOf('steps').mem_limit)).toBeGreaterThanOrEqual(MAX_AUTO_PROCESSES * Number(heap) + 1_024);
    const command = serviceOf('redis').command ?? [];
    const most = toMegabytes(command[command.indexOf('--maxmemory') + 1]);
    // A rewrite of its file copies what changes meanwhile: at worst all of it.
    expect(toMegabytes(serviceOf('redis').mem_limit)).toBeGreaterThanOrEqual(2 * most);
  });

  it('bounds the processes of what runs the commands of agents', () => {
    expect(serviceOf('steps').pids_limit).toBeGreaterThan(COMMAND_LIMITS.processes);
  });

  it('mounts the workspace where the image has it, and its own agents over those of the image', () => {
    const image = readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
    const [, workspaceDir = ''] = /^ENV BATON_WORKSPACE_DIR=(.+)$/m.exec(image) ?? [];
    expect(serviceOf('steps').volumes).toEqual(['./agents:/app/agents:ro', `workspace:${workspaceDir}`]);
    for (const name of ['api', 'compactions', 'prunes', 'deliveries']) {
      expect(serviceOf(name).volumes).toEqual(['./agents:/app/agents:ro']);
    }
  });
});

describe('docker compose', () => {
  const version = spawnSync('docker', ['compose', 'version'], { encoding: 'utf8' });
  const missing =
    version.error?.message ?? (version.status === 0 ? undefined : version.stderr.trim().split('\n')[0] || 'no answer');
  if (missing !== undefined)
    process.stdout.write(`tests: docker-compose.yml is checked without the client (${missing})\n`);

  it('accepts the file', ({ skip }) => {
    skip(missing !== undefined, `no docker compose here: ${missing}`);
    const { status, stderr } = spawnSync('docker', ['compose', 'config', '--quiet'], { cwd: ROOT, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
