import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { inSchema } from '../../src/platform/database-schema.ts';
import { splitSettings } from '../../src/platform/postgres-settings.ts';
import { urlOfPool } from '../../src/platform/url-of-pool.ts';

const POOLS: readonly (readonly [what: string, options: pg.PoolConfig])[] = [
  ['a URL', { connectionString: 'postgres://ann:p%40ss@db.example:6543/shop?sslmode=disable' }],
  ['parts', { user: 'ann', password: 'p@s/s %', host: 'db.example', port: 6543, database: 'a b' }],
  ['a socket', { user: 'ann', host: '/var/run/postgresql', port: 5432, database: 'shop' }],
  ['an IPv6 address', { user: 'ann', host: '::1', port: 5432, database: 'shop' }],
  ['options beside it', { connectionString: 'postgres://ann@db.example/shop', options: '-c search_path=shop' }],
];

/** The parts of the connection that pg makes of these options. */
const made = (options: pg.PoolConfig) => {
  const { user, password, host, port, database, ssl } = new pg.Client(options);
  return { user, password: password || null, host: host.replace(/^\[(.*)\]$/, '$1'), port, database, ssl };
};

describe('the URL of a pool', () => {
  it.each(POOLS)('leads to the same place: %s', (_what, options) => {
    const url = urlOfPool(new pg.Pool(options).options);
    expect(made({ connectionString: url })).toEqual(made(options));
    expect(splitSettings(url).settings).toEqual(options.options === undefined ? {} : { search_path: 'shop' });
  });

  it('looks in the schema of Baton alone, whatever the URL says besides', () => {
    const url = inSchema('postgres://ann@db.example/shop?options=-c%20work_mem%3D8MB', 'support');
    expect(splitSettings(url)).toEqual({
      connectionString: 'postgres://ann@db.example/shop',
      settings: { work_mem: '8MB', search_path: 'support' },
    });
  });
});
