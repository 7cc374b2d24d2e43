import pg from 'pg';
import { BatonError } from '../domain/errors.ts';

/** Options that a URL cannot express, or expresses in other words. */
const NOT_IN_URL = ['ssl', 'stream'] as const;

/**
 * The URL of the database that a program's pool leads to, for connections that no pool may take back: those that listen
 * or hold a lock.
 * @throws BatonError `config_invalid` if the pool has what no URL can say
 */
export function urlOfPool(options: pg.PoolConfig): string {
  const has = NOT_IN_URL.filter((key) => options[key] !== undefined && options[key] !== false);
  const { connectionString } = options;
  const unsaid: string[] = typeof options.password === 'function' ? [...has, 'password'] : [...has];
  if (connectionString !== undefined && !URL.canParse(connectionString)) unsaid.push('connectionString');
  if (unsaid.length > 0) {
    throw new BatonError(
      'config_invalid',
      `pool: Baton opens connections of its own to listen and to hold locks, and cannot take over ${unsaid.join(' and ')} from the pool: give databaseUrl as well`,
    );
  }
  const url = connectionString === undefined ? urlOf(options) : new URL(connectionString);
  if (options.options !== undefined && !url.searchParams.has('options')) {
    url.searchParams.set('options', options.options);
  }
  return url.href;
}

/** By the defaults of `pg`, which the pool has used. */
function urlOf(options: pg.PoolConfig): URL {
  const { user = '', password, host, port, database = '' } = new pg.Client(options);
  const url = new URL('postgres://localhost');
  url.username = encodeURIComponent(user);
  url.password = encodeURIComponent(typeof password === 'string' ? password : '');
  url.port = String(port);
  url.pathname = `/${encodeURIComponent(database)}`;
  if (host.startsWith('/')) url.searchParams.set('host', host);
  else url.hostname = host.includes(':') ? `[${host}]` : host;
  return url;
}
