import { once } from 'node:events';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBinariesPackage, prepareBinaries } from '../../src/embedded/binaries.ts';
import { clusterDirOf } from '../../src/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { startPostmaster } from '../../src/embedded/postmaster.ts';
import { choosePostgresCommand } from '../../src/embedded/privileges.ts';
import { eventually } from '../support/eventually.ts';
import {
  makeStoppedCluster,
  processesIn,
  queryValue,
  type StoppedCluster,
  scratchDir,
  spawnHolder,
  untilNoProcessIn,
  withClient,
} from './support.ts';

let stopped: StoppedCluster;
beforeAll(async () => {
  stopped = await makeStoppedCluster();
});
afterAll(() => stopped[Symbol.asyncDispose]());

describe('the first start', () => {
  const stack = new AsyncDisposableStack();
  let dataDir: string;
  let postgres: EmbeddedPostgres;
  beforeAll(async () => {
    const closed = join(stack.use(await scratchDir()).path, `closed 'to' "all" $HOME`);
    await mkdir(closed, { mode: 0o700 });
    dataDir = join(closed, 'my data');
    postgres = stack.use(await startEmbeddedPostgres({ dataDir }));
  });
  afterAll(() => stack.disposeAsync());

  test('gives a database whose owner is not superuser, on loopback only, with settings fit for a server', async () => {
    const { rows } = await withClient(postgres.connectionString, (client) =>
      client.query(`
        SELECT current_user AS role, current_database() AS database,
               (SELECT rolsuper OR rolcreaterole OR rolreplication OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS privileged,
               (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()) AS owner,
               current_setting('server_version') AS version, current_setting('server_encoding') AS encoding,
               current_setting('listen_addresses') AS addresses,
               current_setting('max_connections') AS connections, current_setting('fsync') AS fsync,
               current_setting('TimeZone') AS timezone, current_setting('tcp_keepalives_idle') AS keepalive`),
    );
    expect(rows[0]).toEqual({
      role: 'baton',
      database: 'baton',
      privileged: false,
      owner: 'baton',
      version: '18.4',
      encoding: 'UTF8',
      addresses: '127.0.0.1',
      connections: '200',
      fsync: 'on',
      timezone: 'UTC',
      keepalive: '5',
    });
  });

  test('lets nobody in without the password, opens no socket file, and keeps passwords where only the owner reads', async () => {
    const wrong = new URL(postgres.connectionString);
    wrong.password = 'guess';
    await expect(queryValue(wrong.href, 'SELECT 1 AS value')).rejects.toMatchObject({ code: '28P01' });

    const credentialsPath = join(clusterDirOf(dataDir), 'baton-credentials.json');
    const admin = new URL(postgres.connectionString);
    admin.username = 'postgres';
    admin.password = JSON.parse(await readFile(credentialsPath, 'utf8')).superuserPassword;
    expect(await queryValue(admin.href, `SELECT current_setting('unix_socket_directories') AS value`)).toBe('');
    expect((await stat(credentialsPath)).mode & 0o777).toBe(0o600);
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
    // `lib` has links to libraries. It exists where npm has not run the install script that makes them in the package.
    const names = (await readdir(dataDir)).filter((name) => name !== 'lib');
    expect(names.sort()).toEqual(['cluster', 'owner.lock', 'owner.pid']);
  });

  test('offers the schema rights, LISTEN/NOTIFY and advisory locks that queues and live events need', async () => {
    await withClient(postgres.connectionString, async (listener) => {
      await listener.query('CREATE SCHEMA queue; CREATE TABLE queue.jobs (id int); CREATE TABLE runs (id int)');
      await listener.query('LISTEN news');
      const heard = once(listener, 'notification');
      await listener.query('SELECT pg_advisory_lock(42)');
      const other = await withClient(postgres.connectionString, async (client) => {
        await client.query(`SELECT pg_notify('news', 'hello')`);
        return await client.query('SELECT pg_try_advisory_lock(42) AS got');
      });
      expect(other.rows).toEqual([{ got: false }]);
      expect((await heard)[0]).toMatchObject({ channel: 'news', payload: 'hello' });
    });
    expect(await queryValue(postgres.connectionString, 'SELECT pg_try_advisory_lock(42) AS value')).toBe(true);
  });

  test('works below a directory only its owner may enter, with blanks and quotes in the path', async () => {
    expect(dataDir).toContain(`closed 'to' "all" $HOME/my data`);
    expect((await stat(dirname(dataDir))).mode & 0o777).toBe(0o700);
    expect(await queryValue(postgres.connectionString, 'SELECT 1 AS value')).toBe(1);
  });

  test('is done anew after one that was killed in the middle', async () => {
    await using dir = await scratchDir();
    const dataDir = join(dir.path, 'data');
    const unfinished = async () => (await namesIn(dataDir)).filter((name) => name.includes('.init-'));
    {
      await using holder = spawnHolder(dataDir);
      await eventually(async () => {
        const [building] = (await unfinished()).filter((name) => !name.endsWith('.password'));
        if (building === undefined) return false;
        return (await namesIn(join(dataDir, building))).includes('PG_VERSION');
      }, 'the cluster is being built');
      holder.child.kill('SIGKILL');
    }
    expect(await readdir(dataDir)).not.toContain('cluster');
    await untilNoProcessIn(dataDir);

    const lines: string[] = [];
    // An initdb that was itself killed leaves this: a directory that was not cleaned up, and a password file.
    await mkdir(join(dataDir, 'cluster.init-killed', 'base'), { recursive: true });
    await writeFile(join(dataDir, 'cluster.init-killed', 'PG_VERSION'), '18\n');
    await writeFile(join(dataDir, 'cluster.init-killed.password'), 'secret');
    await using postgres = await startEmbeddedPostgres({ dataDir, log: (line) => lines.push(line) });
    expect(await queryValue(postgres.connectionString, 'SELECT 1 AS value')).toBe(1);
    expect(await unfinished()).toEqual([]);
    expect(lines.filter((line) => line.includes('interrupted'))).not.toEqual([]);
  });
});

describe('a later start', () => {
  test('finds the data of the earlier one and does not initialise again', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const lines: string[] = [];
    await using postgres = await startEmbeddedPostgres({ dataDir: dir.path, log: (line) => lines.push(line) });
    expect(await queryValue(postgres.connectionString, 'SELECT value FROM kept')).toBe(7);
    expect(lines.filter((line) => line.includes('first start'))).toEqual([]);
  });

  test('refuses a cluster of another major version and leaves it alone', async () => {
    await using dir = await scratchDir();
    const versionPath = join(clusterDirOf(dir.path), 'PG_VERSION');
    await mkdir(clusterDirOf(dir.path));
    await writeFile(versionPath, '16\n');
    await expect(startEmbeddedPostgres({ dataDir: dir.path })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_VERSION',
      message: expect.stringMatching(/16.*18/),
    });
    expect(await readFile(versionPath, 'utf8')).toBe('16\n');
    expect(processesIn(dir.path)).toEqual([]);
  });

  test('does not overwrite a directory that is not a cluster', async () => {
    await using dir = await scratchDir();
    await mkdir(clusterDirOf(dir.path));
    await writeFile(join(clusterDirOf(dir.path), 'thesis.txt'), 'dear');
    await expect(startEmbeddedPostgres({ dataDir: dir.path })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_INIT_FAILED',
    });
    expect(await readdir(clusterDirOf(dir.path))).toEqual(['thesis.txt']);
    expect((await readdir(dir.path)).filter((name) => name.includes('.init-'))).toEqual([]);
  });

  test('takes another port when the chosen one is taken before the server binds it', async () => {
    await using dir = await scratchDir();
    const dataDir = dir.path;
    stopped.copyTo(dataDir);

    await using taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const takenPort = portOf(taken.address());
    const spare = createServer().listen(0, '127.0.0.1');
    await once(spare, 'listening');
    const sparePort = portOf(spare.address());
    await spare[Symbol.asyncDispose]();

    const ports = [takenPort, sparePort];
    const binaries = await prepareBinaries(findBinariesPackage(), join(dataDir, 'lib'));
    const log = () => undefined;
    const postmaster = await startPostmaster({
      command: await choosePostgresCommand(binaries, dataDir, log),
      clusterDir: clusterDirOf(dataDir),
      log,
      pickPort: async () => ports.shift() ?? 0,
    });
    expect(postmaster.port).toBe(sparePort);
    await postmaster.stop();
  });

  test('reports the log of a server that does not start', async () => {
    await using dir = await scratchDir();
    const dataDir = dir.path;
    stopped.copyTo(dataDir);
    await writeFile(join(clusterDirOf(dataDir), 'postgresql.conf'), 'nonsense_setting = 1\n');
    const exitListeners = process.listenerCount('exit');
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_START_FAILED',
      message: expect.stringContaining('nonsense_setting'),
    });
    expect(processesIn(dataDir)).toEqual([]);
    expect(process.listenerCount('exit')).toBe(exitListeners);
  });
});

describe('stopping', () => {
  test('cuts open connections and leaves no process, port or listener behind, however often it is asked', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const exitListeners = process.listenerCount('exit');
    const postgres = await startEmbeddedPostgres({ dataDir: dir.path });
    await withClient(postgres.connectionString, async (client) => {
      const cut = new Promise<void>((resolve) => client.once('end', resolve));
      const busy = expect(client.query('SELECT pg_sleep(600)')).rejects.toThrow('terminat');
      const first = postgres[Symbol.asyncDispose]();
      await postgres[Symbol.asyncDispose]();
      expect(processesIn(dir.path)).toEqual([]);
      await Promise.all([first, cut, busy]);
    });
    const probe = connect(postgres.port, '127.0.0.1');
    expect((await once(probe, 'error').catch((error) => [error]))[0]).toMatchObject({ code: 'ECONNREFUSED' });
    expect(process.listenerCount('exit')).toBe(exitListeners);
    await postgres[Symbol.asyncDispose]();
  });
});

function namesIn(path: string): Promise<string[]> {
  return readdir(path).catch(() => []);
}

function portOf(address: ReturnType<ReturnType<typeof createServer>['address']>): number {
  if (address === null || typeof address === 'string') throw new TypeError('a TCP listener has a port');
  return address.port;
}
