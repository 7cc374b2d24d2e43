import { appendFile, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { clusterDirOf, readCredentials } from '../../../src/embedded/cluster.ts';

/** Files of a running server that mean nothing in a copy, and folders whose contents do not. */
const LEFT_OUT: ReadonlySet<string> = new Set(['postmaster.pid', 'postmaster.opts']);
const EMPTIED: ReadonlySet<string> = new Set(['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_stat_tmp']);

/** A server of the suite, with its folder. */
export type Running = Readonly<{ port: number; dataDir: string }>;

/** Work as the server's superuser, in one connection. */
export async function asSuperuser<T>({ port, dataDir }: Running, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { superuserPassword: password } = await readCredentials(clusterDirOf(dataDir));
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres', password });
  client.on('error', () => undefined);
  await client.connect();
  return await work(client).finally(() => client.end());
}

/**
 * Copies the cluster of a server at work into another folder, as `pg_basebackup` does
 * (https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP).
 * @returns the moment up to which the copy has all commits, by `performance.now()`
 */
export async function copyCluster(server: Running, dataDir: string): Promise<number> {
  const [from, to] = [clusterDirOf(server.dataDir), clusterDirOf(dataDir)];
  return await asSuperuser(server, async (client) => {
    await client.query(`select pg_backup_start('baton', true)`);
    await copyFolder(from, to, EMPTIED);
    const keptAtMs = performance.now();
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
    await writeFile(join(to, 'backup_label'), rows[0]?.labelfile ?? '');
    await copyFolder(join(from, 'pg_wal'), join(to, 'pg_wal'), new Set());
    return keptAtMs;
  });
}

/** Lets the copy's server find settings beside those that it is started with. */
export async function addSettings(dataDir: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  await appendFile(join(clusterDirOf(dataDir), 'postgresql.auto.conf'), lines.join(''));
}

/** Makes a standby into a primary, as `pg_ctl promote` does. */
export async function promote(dataDir: string): Promise<void> {
  const cluster = clusterDirOf(dataDir);
  await writeFile(join(cluster, 'promote'), '');
  const [pid = ''] = (await readFile(join(cluster, 'postmaster.pid'), 'utf8')).split('\n');
  process.kill(Number(pid), 'SIGUSR1');
}

async function copyFolder(from: string, to: string, emptied: ReadonlySet<string>): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (LEFT_OUT.has(entry.name) || entry.name.startsWith('pgsql_tmp')) continue;
    if (!entry.isDirectory()) await orVanished(copyFile(source, target));
    else if (emptied.has(entry.name)) await mkdir(target, { mode: 0o700 });
    else await orVanished(copyFolder(source, target, new Set()));
  }
}

/** A server at work removes files: what replaces them is in its log. */
async function orVanished(work: Promise<unknown>): Promise<void> {
  await work.catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}
