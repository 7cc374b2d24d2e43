import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { TLSSocket } from 'node:tls';
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { checkPostgres, checkRedis } from '../../src/app/check-stores.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { hasRedisServer, startOwnRedis } from '../faults/world/services.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const redisUrl = inject('redisUrl');

type Certificate = Readonly<{ key: string; cert: string }>;

/** Null where there is no openssl. */
async function selfSigned(): Promise<Certificate | null> {
  await using folder = await temporaryFolder();
  const [keyFile, certFile] = [path.join(folder.path, 'key.pem'), path.join(folder.path, 'cert.pem')];
  const subject = ['-subj', '/CN=db.invalid', '-days', '1'];
  const made = spawnSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    keyFile,
    '-out',
    certFile,
    ...subject,
  ]);
  return made.status === 0 ? { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8') } : null;
}

/** A server that agrees to TLS as Postgres does, and says no more. */
function startTlsOnly(certificate: Certificate): AsyncDisposable & { port: Promise<number> } {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write('S');
      new TLSSocket(socket, { isServer: true, ...certificate }).on('error', () => undefined);
    });
  }).listen(0, '127.0.0.1');
  const port = once(server, 'listening').then(() => (server.address() as AddressInfo).port);
  return { port, [Symbol.asyncDispose]: async () => void server.close() };
}

/** Replaces the version in the real server's answers by another of the same length. */
const rewriting = (pattern: RegExp, instead: (found: string) => string) => (client: Socket) => (bytes: Buffer) => {
  client.write(Buffer.from(bytes.toString('latin1').replace(pattern, instead), 'latin1'));
};

const changed = (url: string, change: (url: URL) => void): string => {
  const made = new URL(url);
  change(made);
  return made.href;
};

describe('a database that cannot be used is named at the start, with its setting', () => {
  it('because nobody answers there', async () => {
    const DATABASE_URL = 'postgres://baton:secret@127.0.0.1:1/baton';
    const options = { migrate: false, log: () => undefined };
    await expect(openDependencies(loadConfig({ DATABASE_URL }), options)).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'DATABASE_URL: Postgres at 127.0.0.1:1 cannot be reached (connect ECONNREFUSED 127.0.0.1:1)',
    });
  });

  it('because a name has no address: a password may have been taken for one', async () => {
    await expect(checkPostgres('postgres://u:p@s@no.invalid/x')).rejects.toMatchObject({
      message: expect.stringMatching(/^DATABASE_URL: Postgres at .* cannot be reached \(getaddrinfo .*%40/),
    });
  });

  it('because it does not exist', async () => {
    const { adminUrl } = inject('postgres');
    const url = changed(adminUrl, (it) => {
      it.pathname = '/no_such_database';
    });
    await expect(checkPostgres(url)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(
        /^DATABASE_URL: Postgres at \S+:\d+ has no database no_such_database \(.+\)\. Create it: createdb no_such_database$/,
      ),
    });
  });

  it('because the user is refused', async () => {
    const url = changed(inject('postgres').adminUrl, (it) => {
      it.username = 'no_such_user';
      it.password = 'wrong';
    });
    const refusal = await checkPostgres(url).catch((error) => error);
    expect(refusal).toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^DATABASE_URL: Postgres at \S+:\d+ refuses the user no_such_user \(.+\)$/),
    });
    expect(refusal.message).not.toContain('wrong');
  });

  it('because its certificate is not trusted', async ({ skip }) => {
    const certificate = await selfSigned();
    if (certificate === null) return skip('there is no openssl here');
    await using server = startTlsOnly(certificate);
    const port = await server.port;
    await expect(checkPostgres(`postgres://u@127.0.0.1:${port}/x?sslmode=require`)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^DATABASE_URL: Postgres at \S+ has a certificate .*sslrootcert=FILE.*no-verify/),
    });
  });

  it('because it is too old', async () => {
    await using database = await createTestDatabase();
    await using proxy = await startTcpProxy(
      database.connectionString,
      rewriting(/1[4-9]00\d\d/, () => '130022'),
    );
    await expect(checkPostgres(proxy.via(database.connectionString))).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^DATABASE_URL: Postgres at \S+ is version 13\.22; Baton needs 14 or newer$/),
    });
    await checkPostgres(database.connectionString);
  });
});

describe.runIf(redisUrl !== null)('a Redis that cannot be used is named at the start, with its setting', () => {
  it('because nobody answers there', async () => {
    await using database = await createTestDatabase();
    const config = loadConfig({ DATABASE_URL: database.connectionString, REDIS_URL: 'redis://127.0.0.1:1' });
    await expect(openDependencies(config, { migrate: false, log: () => undefined })).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'REDIS_URL: Redis at 127.0.0.1:1 cannot be reached (connect ECONNREFUSED 127.0.0.1:1)',
    });
  });

  it('because it wants a password, or another one', async ({ skip }) => {
    if (!hasRedisServer()) return skip('there is no redis-server here');
    await using redis = await startOwnRedis();
    const url = (password: string) => `redis://${password}127.0.0.1:${redis.port}`;
    const client = new Redis(url(''));
    const right = `p@ss/w#1 %41"'$x:é`;
    await client.config('SET', 'requirepass', right);
    client.disconnect();
    const place = `REDIS_URL: Redis at 127.0.0.1:${redis.port} refuses the user or the password`;
    const problem = (said: string) => ({
      code: 'config_invalid',
      message: expect.stringContaining(`${place} (${said}`),
    });
    await expect(checkRedis({ url: url('') })).rejects.toMatchObject(problem('NOAUTH'));
    await expect(checkRedis({ url: url(':wrong@') })).rejects.toMatchObject(problem('WRONGPASS'));
    const { redisUrl: withPassword } = loadConfig({ REDIS_URL: url(':wrong@'), BATON_REDIS_PASSWORD: right });
    await checkRedis({ url: withPassword ?? '' });
  });

  it('because it is too old', async () => {
    await using proxy = await startTcpProxy(
      redisUrl ?? '',
      rewriting(/redis_version:\d+\.\d+/, (found) => 'redis_version:6.0'.padEnd(found.length, '0')),
    );
    await expect(checkRedis({ url: proxy.via(redisUrl ?? '') })).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^REDIS_URL: Redis at \S+ is version 6\.0\S*; Baton needs 6\.2 or newer$/),
    });
    await checkRedis({ url: redisUrl ?? '' });
  });

  it('because it is a node of a Redis Cluster', async ({ skip }) => {
    if (!hasRedisServer()) return skip('there is no redis-server here');
    await using folder = await temporaryFolder();
    await using node = await startOwnRedis(['--cluster-enabled', 'yes', '--dir', folder.path]);
    await expect(checkRedis({ url: `redis://127.0.0.1:${node.port}` }, 'baton')).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/^REDIS_URL: Redis at \S+ is a node of a Redis Cluster.*cluster-enabled no/),
    });
  });
});
