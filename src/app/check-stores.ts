import { Redis } from 'ioredis';
import pg from 'pg';
import { BatonError } from '../domain/errors.ts';
import { STORE_ANSWER_WITHIN_MS } from '../domain/tunables.ts';
import { applySettings, splitSettings } from '../platform/postgres-settings.ts';
import type { RedisServer } from '../platform/redis-server.ts';
import { VARIABLES } from '../platform/settings.ts';

/** The oldest major version of Postgres and the oldest Redis that Baton supports and is tested with. */
const OLDEST_POSTGRES = 14;
const OLDEST_REDIS = [6, 2] as const;

/**
 * Connects, so that a start can say what is wrong with the database.
 * @param setting name of its setting, for the message
 * @throws BatonError `store_unavailable` if it cannot be reached now, else `config_invalid`: it refuses the user, its
 * certificate is not trusted, it has no such database, it is too old, or a pooler in front of it gives connections away
 */
export async function checkPostgres(connectionString: string, setting = 'DATABASE_URL'): Promise<void> {
  const own = splitSettings(connectionString);
  const [client, second] = [openClient(own.connectionString), openClient(own.connectionString)];
  const place = `${setting}: Postgres at ${client.host}:${client.port}`;
  try {
    await client.connect();
    await applySettings(client, own.settings);
    const { rows } = await client.query<{ number: string }>(`select current_setting('server_version_num') as number`);
    // 150019 is 15.19, and so on since version 10 (https://www.postgresql.org/docs/current/runtime-config-preset.html).
    const number = Number(rows[0]?.number);
    const [major, minor] = [Math.floor(number / 10_000), number % 10_000];
    if (major < OLDEST_POSTGRES) {
      throw refused(`${place} is version ${major}.${minor}; Baton needs ${OLDEST_POSTGRES} or newer`, undefined);
    }
    if ((await connects(second)) && (await shareServer(client, second))) {
      throw refused(
        `${place} is a pooler that gives a connection to others between two transactions. Baton listens and holds locks on its connections: use the direct address of the database, or a pooler in session mode`,
        undefined,
      );
    }
  } catch (error) {
    throw error instanceof BatonError ? error : postgresProblem(place, client, error);
  } finally {
    await Promise.all([client, second].map((each) => each.end().catch(() => undefined)));
  }
}

function openClient(connectionString: string): pg.Client {
  const client = new pg.Client({
    connectionString,
    connectionTimeoutMillis: STORE_ANSWER_WITHIN_MS,
    query_timeout: STORE_ANSWER_WITHIN_MS,
  });
  client.on('error', () => undefined);
  return client;
}

const TOO_MANY_CONNECTIONS = '53300';

/** False: Postgres has no connection free, which is said elsewhere. */
async function connects(client: pg.Client): Promise<boolean> {
  try {
    await client.connect();
    return true;
  } catch (error) {
    if (codeOf(error) === TOO_MANY_CONNECTIONS) return false;
    throw error;
  }
}

/** Poolers take their servers from the top of a stack, in turn or by chance. */
const LOOKS = 5;

/** Whether two open connections were seen on one server process, or one of them on two. */
async function shareServer(...clients: readonly [pg.Client, pg.Client]): Promise<boolean> {
  const seen = clients.map(() => new Set<number>());
  for (let look = 0; look < LOOKS; look += 1) {
    for (const [index, client] of clients.entries()) {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      for (const { pid } of rows) seen[index]?.add(pid);
    }
  }
  const all = new Set(seen.flatMap((pids) => [...pids]));
  return all.size !== clients.length || seen.some((pids) => pids.size !== 1);
}

/** SQLSTATEs of a server that refuses the login (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
const REFUSED_LOGIN = new Set(['28000', '28P01']);
const NO_SUCH_DATABASE = '3D000';

/** Codes of a certificate that Node does not trust (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const UNTRUSTED_CERTIFICATE = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_HAS_EXPIRED',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

function postgresProblem(place: string, { user, database }: pg.Client, error: unknown): BatonError {
  const code = codeOf(error);
  const reason = wordsOf(error);
  if (REFUSED_LOGIN.has(code)) return refused(`${place} refuses the user ${user} (${reason})`, error);
  if (code === NO_SUCH_DATABASE) {
    return refused(`${place} has no database ${database} (${reason}). Create it: createdb ${database}`, error);
  }
  if (UNTRUSTED_CERTIFICATE.has(code)) {
    const remedy =
      'name the CA of the host with &sslrootcert=FILE, or do not verify: sslmode=no-verify, or &uselibpqcompat=true';
    return refused(`${place} has a certificate that is not trusted (${reason}). In its URL ${remedy}`, error);
  }
  return unreachable(place, error);
}

/**
 * Connects once, so that a start can say what is wrong with the Redis of `REDIS_URL`. Resolves with its eviction
 * policy.
 * @param writesUnder a prefix of keys: the Redis must also take a write
 * @throws BatonError `store_unavailable` if it cannot be reached now, else `config_invalid`: it wants a password or
 * another one, is too old, or is a node of a Redis Cluster
 */
export async function checkRedis(
  { url, via }: RedisServer,
  writesUnder?: string,
): Promise<Readonly<{ evictionPolicy: string }>> {
  const redis = new Redis(url, {
    ...via,
    lazyConnect: true,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    connectTimeout: STORE_ANSWER_WITHIN_MS,
    commandTimeout: STORE_ANSWER_WITHIN_MS,
    retryStrategy: () => null,
    sentinelCommandTimeout: STORE_ANSWER_WITHIN_MS,
    sentinelRetryStrategy: () => null,
  });
  const place =
    via?.name === undefined
      ? `REDIS_URL: Redis at ${redis.options.host}:${redis.options.port}`
      : `REDIS_URL: the master ${via.name} that the sentinels of ${VARIABLES.redisSentinels} watch`;
  // The thrown error says only "Connection is closed."; listeners get the cause.
  const first = Promise.withResolvers<unknown>();
  redis.on('error', first.resolve);
  try {
    await redis.connect();
    const info = await redis.info();
    if (fieldOf(info, 'cluster_enabled') === '1') throw refused(`${place} ${IS_CLUSTER}`, undefined);
    if (writesUnder !== undefined) await redis.set(`${writesUnder}:write-probe`, '1', 'PX', PROBE_KEPT_MS);
    const version = fieldOf(info, 'redis_version');
    if (isNewEnough(version)) return { evictionPolicy: fieldOf(info, 'maxmemory_policy') };
    throw refused(`${place} is version ${version}; Baton needs ${OLDEST_REDIS.join('.')} or newer`, undefined);
  } catch (error) {
    if (error instanceof BatonError) throw error;
    throw redisProblem(place, await Promise.race([first.promise, Promise.resolve(error)]));
  } finally {
    redis.disconnect();
  }
}

/** BullMQ's keys of a queue lie on one server only with a prefix in braces, and a plain connection follows no slot. */
const IS_CLUSTER =
  'is a node of a Redis Cluster, which Baton does not use: name a Redis with cluster-enabled no, or leave REDIS_URL out and the queues are in Postgres';

/** Time to live of the key that is written. */
const PROBE_KEPT_MS = 60_000;

const fieldOf = (info: string, name: string): string =>
  new RegExp(`^${name}:(.+?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';

/** An unreadable version counts as new enough. */
function isNewEnough(version: string): boolean {
  const [major, minor] = version.split('.').map(Number);
  if (major === undefined || minor === undefined || Number.isNaN(major + minor)) return true;
  return major > OLDEST_REDIS[0] || (major === OLDEST_REDIS[0] && minor >= OLDEST_REDIS[1]);
}

/** For certificates that no other CA would make good, by the code of Node. */
const CERTIFICATE_REMEDIES: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'Renew it',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Reach it by a name or an address that the certificate has',
};

/** Refused logins (https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl). */
const REDIS_REFUSALS = /^(NOAUTH|WRONGPASS|NOPERM|ERR .*AUTH)/;

function redisProblem(place: string, error: unknown): BatonError {
  const reason = wordsOf(error);
  if (REDIS_REFUSALS.test(reason)) return refused(`${place} refuses the user or the password (${reason})`, error);
  if (!UNTRUSTED_CERTIFICATE.has(codeOf(error))) return unreachable(place, error);
  const remedy = CERTIFICATE_REMEDIES[codeOf(error)] ?? `Name the file of its CA in ${VARIABLES.redisCaFile}`;
  return refused(`${place} has a certificate that is not trusted (${reason}). ${remedy}`, error);
}

const refused = (message: string, cause: unknown): BatonError => new BatonError('config_invalid', message, { cause });

function unreachable(place: string, cause: unknown): BatonError {
  // In a URL, the text after an "@" in the password is taken for the host.
  const hint =
    codeOf(cause) === 'ENOTFOUND'
      ? '. In a URL "@", "/", "#" and "%" of a password are written as %40, %2F, %23, %25'
      : '';
  return new BatonError('store_unavailable', `${place} cannot be reached (${wordsOf(cause)})${hint}`, { cause });
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** For a name with several addresses the error holds one error per address, and has no message of its own. */
function wordsOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(wordsOf))].join(', ');
  return error instanceof Error ? error.message : String(error);
}
