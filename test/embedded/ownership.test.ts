import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chown, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBinariesPackage, prepareBinaries } from '../../src/embedded/binaries.ts';
import { clusterDirOf } from '../../src/embedded/cluster.ts';
import type { EmbeddedPostgresError } from '../../src/embedded/errors.ts';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { OWN_CLUSTER_SETTING } from '../../src/embedded/postmaster.ts';
import { choosePostgresCommand } from '../../src/embedded/privileges.ts';
import { freePort } from '../support/free-port.ts';
import {
  IS_ROOT,
  makeStoppedCluster,
  NOBODY,
  NOBODY_PREFIX,
  processesIn,
  queryValue,
  type StoppedCluster,
  scratchDir,
  spawnHolder,
  untilNoProcessIn,
  whyNotAsNobody,
  withClient,
} from './support.ts';

let stopped: StoppedCluster;
beforeAll(async () => {
  stopped = await makeStoppedCluster();
});
afterAll(() => stopped[Symbol.asyncDispose]());

async function expectKept(dataDir: string, value = 7): Promise<string[]> {
  const lines: string[] = [];
  await using postgres = await startEmbeddedPostgres({ dataDir, log: (line) => lines.push(line) });
  expect(await queryValue(postgres.connectionString, 'SELECT value FROM kept')).toBe(value);
  return lines;
}

/** A server on the cluster that is not tied to any owner; resolves when it accepts connections. */
async function startUntied(dataDir: string, extraSettings: readonly string[]): Promise<ChildProcess> {
  const log = () => undefined;
  const binaries = await prepareBinaries(findBinariesPackage(), join(dataDir, 'lib'));
  const command = await choosePostgresCommand(binaries, dataDir, log);
  const prefix = command.prefix.flatMap((word, at, words) =>
    word === '--pdeathsig' || words[at - 1] === '--pdeathsig' ? [] : [word],
  );
  const socket = ['listen_addresses=127.0.0.1', `port=${await freePort()}`, 'unix_socket_directories='];
  const settings = [...socket, ...extraSettings].flatMap((setting) => ['-c', setting]);
  const [file = '', ...args] = [...prefix, binaries.postgres, '-D', clusterDirOf(dataDir), ...settings];
  const child = spawn(file, args, { cwd: dataDir, env: { ...binaries.env }, stdio: ['ignore', 'ignore', 'pipe'] });
  for await (const line of createInterface({ input: child.stderr })) {
    if (line.includes('ready to accept connections')) return child;
  }
  throw new Error('the server ended');
}

async function stop(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGQUIT');
  await exited;
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    expect(error).toMatchObject({ code: 'ESRCH' });
  }
}

describe('a second owner', () => {
  test('is refused with the pid of the first, in the same process and in another', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const postgres = await startEmbeddedPostgres({ dataDir: dir.path });
    await expect(startEmbeddedPostgres({ dataDir: dir.path })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_IN_USE',
      message: expect.stringContaining(`process ${process.pid}.`),
    });
    await using holder = spawnHolder(dir.path);
    expect(await holder.refused()).toEqual({
      code: 'EMBEDDED_POSTGRES_IN_USE',
      message: expect.stringContaining(`process ${process.pid}.`),
    });
    expect(await queryValue(postgres.connectionString, 'SELECT 1 AS value')).toBe(1);

    await postgres[Symbol.asyncDispose]();
    await using successor = spawnHolder(dir.path);
    await successor.started();
  });

  test('of two first starts at once exactly one gets the directory', async () => {
    await using dir = await scratchDir();
    const dataDir = join(dir.path, 'data');
    await using stack = new AsyncDisposableStack();
    const holders = [1, 2, 3].map(() => stack.use(spawnHolder(dataDir)));
    const lines = await Promise.all(holders.map((holder) => holder.nextLine()));
    const winner = lines.findIndex((line) => !Object.hasOwn(Object(line), 'code'));
    const others = lines.filter((_, at) => at !== winner);
    expect(lines[winner]).toHaveProperty('port');
    for (const line of others) {
      expect(line).toMatchObject({
        code: 'EMBEDDED_POSTGRES_IN_USE',
        message: expect.stringContaining(`process ${holders[winner]?.pid}.`),
      });
    }
  });

  test('is refused while somebody else serves the cluster, and does not touch that server', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const foreign = await startUntied(dir.path, []);
    await expect(startEmbeddedPostgres({ dataDir: dir.path })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_IN_USE',
      message: expect.stringContaining(`process ${foreign.pid},`),
    });
    expect(foreign.exitCode ?? foreign.signalCode).toBeNull();
    await stop(foreign);
    await expectKept(dir.path);
  });
});

describe('an owner that goes away', () => {
  test('by kill -9 takes its server with it, and the next start has all committed data', async ({ skip }) => {
    skip(process.platform !== 'linux', 'only Linux can tie a process to the death of its parent');
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    {
      await using holder = spawnHolder(dir.path);
      const { connectionString } = await holder.started();
      await withClient(connectionString, (client) => client.query('UPDATE kept SET value = 8'));
      holder.child.kill('SIGKILL');
    }
    await untilNoProcessIn(dir.path);
    await expectKept(dir.path, 8);
  });

  test('by kill -9 does not stand in the way of a start right after it', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    {
      await using holder = spawnHolder(dir.path);
      await holder.started();
      holder.child.kill('SIGKILL');
    }
    await expectKept(dir.path);
  });

  test('without stopping its server ends all the same and leaves none behind', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    {
      await using holder = spawnHolder(dir.path, { mode: 'forget' });
      await holder.started();
      await once(holder.child.stdout, 'close');
    }
    await untilNoProcessIn(dir.path);
  });

  test('keeps the directory locked as long as it lives, also if it forgets the server', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    await using holder = spawnHolder(dir.path, { mode: 'lose' });
    await holder.started();
    await expect(startEmbeddedPostgres({ dataDir: dir.path })).rejects.toMatchObject({
      code: 'EMBEDDED_POSTGRES_IN_USE',
    });
  });

  test('where nothing can tie the server to it, stops it at its exit, and after kill -9 the next owner does', async ({
    skip,
  }) => {
    const reason = whyNotAsNobody();
    skip(IS_ROOT && reason !== undefined, reason);
    await using dir = await scratchDir();
    const bin = join(dir.path, 'bin');
    const home = join(dir.path, 'home');
    await mkdir(bin);
    await mkdir(home);
    if (IS_ROOT) await chown(home, NOBODY, NOBODY);
    // A system without setpriv.
    await symlink('/bin/sh', join(bin, 'sh'));
    const prefix = [...(IS_ROOT ? NOBODY_PREFIX : []), 'env', `PATH=${bin}`];
    const dataDir = join(home, 'data');
    {
      await using holder = spawnHolder(dataDir, { prefix, mode: 'forget' });
      await holder.started();
    }
    await untilNoProcessIn(dataDir);

    let leftover: number;
    {
      await using holder = spawnHolder(dataDir, { prefix });
      leftover = (await holder.started()).pid;
      holder.child.kill('SIGKILL');
    }
    expect(processesIn(dataDir)).toContain(leftover);
    await using successor = spawnHolder(dataDir, { prefix });
    const { connectionString, pid } = await successor.started();
    expect(pid).not.toBe(leftover);
    expect(processesIn(dataDir)).not.toContain(leftover);
    expect(await queryValue(connectionString, 'SELECT 1 AS value')).toBe(1);
  });

  test('by Ctrl-C on the terminal still has its database while it drains', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    await using holder = spawnHolder(dir.path);
    await holder.started();
    process.kill(-holder.pid, 'SIGINT');
    expect(await holder.nextLine()).toEqual({ afterSigint: 1 });
  });
});

describe('remains of an earlier life', () => {
  test('a left-over server whose owner is gone is stopped and replaced', async () => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const leftover = await startUntied(dir.path, [OWN_CLUSTER_SETTING]);
    const exited = once(leftover, 'exit');
    const lines = await expectKept(dir.path);
    await exited;
    expect(lines).toContain(`stopping a left-over postgres (process ${leftover.pid}) whose owner is gone`);
  });

  test.for([
    ['of a process that is gone', '4194303'],
    ['of a process that is something else by now', String(process.pid)],
    ['that is empty', ''],
  ] as const)('a postmaster.pid %s does not prevent the start', async ([, pid]) => {
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const pidPath = join(clusterDirOf(dir.path), 'postmaster.pid');
    await writeFile(pidPath, `${pid}\n${clusterDirOf(dir.path)}\n1700000000\n5432\n\n127.0.0.1\n  1 2\nready   \n`);
    await expectKept(dir.path);
    await expect(access(pidPath)).rejects.toThrow();
  });

  test('a server killed with -9 is replaced once its backends are gone, not before', async ({ skip }) => {
    skip(process.platform !== 'linux', 'backends are told from other processes by /proc');
    await using dir = await scratchDir();
    stopped.copyTo(dir.path);
    const dead = Promise.withResolvers<EmbeddedPostgresError>();
    await using postgres = await startEmbeddedPostgres({ dataDir: dir.path, onDown: dead.resolve });
    await withClient(postgres.connectionString, async (client) => {
      const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
      const backend: number = rows[0].pid;
      // Frozen, it cannot notice the death of its server.
      process.kill(backend, 'SIGSTOP');
      using _ = { [Symbol.dispose]: () => signalIfAlive(backend, 'SIGCONT') };
      process.kill(postgres.pid, 'SIGKILL');
      expect(await dead.promise).toMatchObject({ code: 'EMBEDDED_POSTGRES_ENDED' });
      await postgres[Symbol.asyncDispose]();
      const waiting = Promise.withResolvers<void>();
      const log = (line: string) => line.includes('waiting for backends') && waiting.resolve();
      const successor = startEmbeddedPostgres({ dataDir: dir.path, log });
      // If it starts without waiting, the wait never ends: look at both.
      const first = await Promise.race([waiting.promise.then(() => 'waits'), successor.then(() => 'starts')]);
      expect(first).toBe('waits');
      process.kill(backend, 'SIGCONT');
      await using started = await successor;
      expect(await queryValue(started.connectionString, 'SELECT value FROM kept')).toBe(7);
    });
  });
});
