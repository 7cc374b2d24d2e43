import { Redis } from 'ioredis';
import pg from 'pg';
import { BatonError } from '../domain/errors.ts';
import { STORE_ANSWER_WITHIN_MS } from '../domain/tunables.ts';

/** The oldest major version of Postgres and the oldest Redis that Baton supports and is tested with. */
const OLDEST_POSTGRES = 14;
const OLDEST_REDIS = [6, 2] as const;

/**
 * Connects once, so that a start can say what is wrong with the database.
 * @param setting name of its setting, for the message
 * @throws BatonError `store_unavailable` if it cannot be reached now, else `config_invalid`: it refuses the user, has
 * no such database, or is too old
 */
export async function checkPostgres(connectionString: string, setting = 'DATABASE_URL'): Promise<void> {
  const client = new pg.Client({
    connectionString,
    connectionTimeoutMillis: STORE_ANSWER_WITHIN_MS,
    query_timeout: STORE_ANSWER_WITHIN_MS,
  });
  client.on('error', () => undefined);
  const place = `${setting}: Postgres at ${client.host}:${client.port}`;
  try {
    await client.connect();
    const { rows } = await client.query<{ number: string }>(`select current_setting('server_version_num') as number`);
    // 150019 is 15.19, and so on since version 10 (https://www.postgresql.org/docs/current/runtime-config-preset.html).
    const number = Number(rows[0]?.number);
    const [major, minor] = [Math.floor(number / 10_000), number % 10_000];
    if (major >= OLDEST_POSTGRES) return;
    throw refused(`${place} is version ${major}.${minor}; Baton needs ${OLDEST_POSTGRES} or newer`, undefined);
  } catch (error) {
    throw error instanceof BatonError ? error : postgresProblem(place, client, error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** SQLSTATEs of a server that refuses the login (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
const REFUSED_LOGIN = new Set(['28000', '28P01']);
const NO_SUCH_DATABASE = '3D000';

function postgresProblem(place: string, { user, database }: pg.Client, error: unknown): BatonError {
  const code = codeOf(error);
  const said = wordsOf(error);
  if (REFUSED_LOGIN.has(code)) return refused(`${place} refuses the user ${user} (${said})`, error);
  if (code === NO_SUCH_DATABASE) {
    return refused(`${place} has no database ${database} (${said}). Create it: createdb ${database}`, error);
  }
  return unreachable(place, error);
}

/**
 * Connects once, so that a start can say what is wrong with the Redis of `REDIS_URL`. Resolves with its eviction
 * policy.
 * @throws BatonError `store_unavailable` if it cannot be reached now, else `config_invalid`: it wants a password or
 * another one, or is too old
 */
export async function checkRedis(url: string): Promise<Readonly<{ evictionPolicy: string }>> {
  const redis = new Redis(url, {
    lazyConnect: true,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    connectTimeout: STORE_ANSWER_WITHIN_MS,
    commandTimeout: STORE_ANSWER_WITHIN_MS,
    retryStrategy: () => null,
  });
  const place = `REDIS_URL: Redis at ${redis.options.host}:${redis.options.port}`;
  // The thrown error says only "Connection is closed."; listeners get the cause.
  const first = Promise.withResolvers<unknown>();
  redis.on('error', first.resolve);
  try {
    await redis.connect();
    const info = await redis.info();
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

const fieldOf = (info: string, name: string): string =>
  new RegExp(`^${name}:(.+?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';

/** An unreadable version counts as new enough. */
function isNewEnough(version: string): boolean {
  const [major, minor] = version.split('.').map(Number);
  if (major === undefined || minor === undefined || Number.isNaN(major + minor)) return true;
  return major > OLDEST_REDIS[0] || (major === OLDEST_REDIS[0] && minor >= OLDEST_REDIS[1]);
}

/** Refused logins (https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl). */
const REDIS_REFUSALS = /^(NOAUTH|WRONGPASS|NOPERM|ERR .*AUTH)/;

function redisProblem(place: string, error: unknown): BatonError {
  const said = wordsOf(error);
  return REDIS_REFUSALS.test(said)
    ? refused(`${place} refuses the user or the password (${said})`, error)
    : unreachable(place, error);
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
