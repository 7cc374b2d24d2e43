import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { checkRedis } from '../../src/app/check-stores.ts';
import { defineAgent } from '../../src/library/baton.ts';
import type { BatonOptions } from '../../src/library/contract.ts';
import { configOf } from '../../src/platform/config.ts';
import { redisServerOf } from '../../src/platform/redis-server.ts';
import { freePort, hasRedisServer, startOwnRedis, startSentinel } from '../faults/world/services.ts';
import { startInProcess } from '../library/support.ts';
import { availableBackends } from '../support/backends.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const skip = !availableBackends().includes('redis') || !hasRedisServer();

/** The client of a session, and what every connection to Redis has complained about. */
async function startClerk(settings: Partial<BatonOptions>) {
  const started = await startInProcess((model) => ({
    agents: [defineAgent({ name: 'clerk', model })],
    ...{ queuePrefix: 'places', requestsPerMinute: 100_000, ...settings },
  }));
  started.simulator.script('test', () => ({ text: 'Done.' }));
  await started.baton.startWorker();
  const session = (await started.baton.client.sessions.create({ agent: 'clerk' })).id;
  const complaints = () => started.logged.map((entry) => JSON.stringify(entry)).filter((line) => COMPLAINT.test(line));
  return { started, session, client: started.baton.client, complaints };
}

const COMPLAINT = /queue_error|bus_error|request_rate_unknown/;

/** A CA, and a certificate of it for 127.0.0.1. */
function makeCertificates(folder: string): Readonly<{ ca: string; cert: string; key: string }> | null {
  const at = (name: string): string => path.join(folder, name);
  const openssl = (...args: string[]): boolean => spawnSync('openssl', args).status === 0;
  const fresh = ['-newkey', 'rsa:2048', '-nodes'];
  writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1');
  const isMade =
    openssl('req', '-x509', ...fresh, '-keyout', at('ca.key'), '-out', at('ca.pem'), '-subj', '/CN=ca', '-days', '1') &&
    openssl('req', ...fresh, '-keyout', at('key.pem'), '-out', at('request'), '-subj', '/CN=redis') &&
    openssl(
      ...['x509', '-req', '-in', at('request'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial'],
      ...['-out', at('cert.pem'), '-days', '1', '-extfile', at('names')],
    );
  return isMade ? { ca: at('ca.pem'), cert: at('cert.pem'), key: at('key.pem') } : null;
}

/** A server that was built without TLS does not have the setting. */
const hasTls = (): boolean => !/Bad directive/.test(String(spawnSync('redis-server', ['--tls-port', 'x']).stdout));

describe.skipIf(skip)('a Redis whose certificate is of a private CA', () => {
  it('is refused with the name of the setting, and with it used by every connection', async (context) => {
    await using folder = await temporaryFolder();
    const files = makeCertificates(folder.path);
    if (files === null || !hasTls()) return context.skip('there is no openssl, or redis-server has no TLS');
    const port = await freePort();
    await using _server = await startOwnRedis([
      ...['--tls-port', String(port), '--tls-auth-clients', 'no', '--tls-ca-cert-file', files.ca],
      ...['--tls-cert-file', files.cert, '--tls-key-file', files.key],
    ]);
    const redisUrl = `rediss://127.0.0.1:${port}`;
    await expect(checkRedis({ url: redisUrl })).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^REDIS_URL: Redis at \S+ has a certificate that is not .*BATON_REDIS_CA_FILE$/),
    });
    const { started, session, client, complaints } = await startClerk({ redisUrl, redisCaFile: files.ca });
    await using _started = started;
    const { runId } = await client.send(session, 'Hello.');
    expect((await client.runs.result(runId)).text).toBe('Done.');
    expect(complaints()).toEqual([]);
  });

  it.each([
    ['redis://127.0.0.1', 'package.json', /^BATON_REDIS_CA_FILE: REDIS_URL has no TLS: begin it with rediss:/],
    ['rediss://127.0.0.1', 'package.json', /^BATON_REDIS_CA_FILE: package\.json cannot be read as certificates/],
    ['rediss://127.0.0.1', 'missing.pem', /^BATON_REDIS_CA_FILE: missing\.pem cannot be read as certificates/],
  ])('of %s in %s is refused', (redisUrl, redisCaFile, message) => {
    expect(() => redisServerOf(configOf({ redisUrl, redisCaFile }))).toThrow(message);
  });
});

it.skipIf(skip)('stops while its Redis is gone', async () => {
  await using server = await startOwnRedis();
  const { started } = await startClerk({ redisUrl: `redis://127.0.0.1:${server.port}` });
  await using _started = started;
  await server[Symbol.asyncDispose]();
  await started.baton.stop();
});

describe.skipIf(skip)('a Redis that sentinels watch', () => {
  it('is followed by every connection when another server becomes the master', async () => {
    await using folder = await temporaryFolder();
    await using master = await startOwnRedis();
    await using replica = await startOwnRedis(['--replicaof', '127.0.0.1', String(master.port)]);
    await using admin = adminOf(replica.port);
    await using sentinel = await startSentinel(folder.path, master.port);
    await using watching = adminOf(sentinel.port);
    await expect.poll(() => admin.redis.info('replication'), PATIENT).toContain('master_link_status:up');
    const replicas = () => watching.redis.call('SENTINEL', 'REPLICAS', 'mymaster');
    await expect.poll(async () => JSON.stringify(await replicas()), PATIENT).toContain('"master-link-status","ok"');
    const settings = { redisUrl: 'redis://mymaster', redisSentinels: [`127.0.0.1:${sentinel.port}`] };
    const { started, session, client } = await startClerk(settings);
    await using _started = started;
    const before = await client.send(session, 'Before.');
    expect((await client.runs.result(before.runId)).text).toBe('Done.');

    await master[Symbol.asyncDispose]();
    const queued = await client.send(session, 'Meanwhile.');
    expect((await client.runs.result(queued.runId)).text).toBe('Done.');
    await expect.poll(() => admin.redis.info('replication'), PATIENT).toContain('role:master');
    await expect.poll(async () => String(await admin.redis.client('LIST')), PATIENT).toContain('name=places-live');
  });

  it('and is not found says which setting names what', async () => {
    await using folder = await temporaryFolder();
    await using master = await startOwnRedis();
    await using sentinel = await startSentinel(folder.path, master.port);
    const redisSentinels = [`127.0.0.1:${sentinel.port}`];
    const server = redisServerOf(configOf({ redisUrl: 'redis://other', redisSentinels }));
    await expect(checkRedis(server ?? { url: '' })).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringMatching(/^REDIS_URL: the master other that the sentinels of BATON_REDIS_SENTINELS watch/),
    });
  });
});

const PATIENT = { timeout: 30_000 };

function adminOf(port: number) {
  const redis = new Redis(port);
  redis.on('error', () => undefined);
  return { redis, [Symbol.asyncDispose]: async () => redis.disconnect() };
}
