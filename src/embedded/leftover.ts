import { execFile } from 'node:child_process';
import { readFile, readlink, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EmbeddedPostgresError } from './errors.ts';
import { escalate, OWN_CLUSTER_SETTING } from './postmaster.ts';

const run = promisify(execFile);

/**
 * Handles the `postmaster.pid` of an earlier server of this cluster. The caller must hold the lock of the data
 * directory: a server that still runs has then lost its owner.
 * - Such a server is stopped, not adopted: it would outlive this process, its log is lost, its settings may be those of
 *   another version, and its clients belong to the dead owner. A new start costs milliseconds.
 * - A file whose process is gone, or whose pid belongs to another program, is removed. PostgreSQL itself checks only
 *   whether *some* process has that pid, and would refuse to start. Its own guard against lingering backends, the
 *   shared memory of the directory, stays in force.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_IN_USE` if a server that Baton did not start runs on the cluster, or
 * a left-over server does not end
 */
export async function settleLeftover(clusterDir: string, log: (line: string) => void): Promise<void> {
  const pidPath = join(clusterDir, 'postmaster.pid');
  const recorded = await readFile(pidPath, 'utf8').catch(() => undefined);
  if (recorded === undefined) return;
  // A single-user backend records its pid as a negative number.
  const pid = Math.abs(Number.parseInt(recorded, 10));
  const server = pid > 0 ? await inspectServer(pid, clusterDir) : undefined;
  if (server === 'foreign') {
    throw new EmbeddedPostgresError(
      'EMBEDDED_POSTGRES_IN_USE',
      `${clusterDir} is served by process ${pid}, which was not started by Baton. Stop it first.`,
    );
  }
  if (server === 'own') {
    log(`stopping a left-over postgres (process ${pid}) whose owner is gone`);
    await stopLeftover(pid, clusterDir);
  } else {
    log(`removing a stale postmaster.pid (process ${recorded.split('\n')[0]})`);
  }
  await rm(pidPath, { force: true });
}

async function stopLeftover(pid: number, clusterDir: string): Promise<void> {
  const stopped = await escalate(
    (signal) => process.kill(pid, signal),
    async (patienceMs) => {
      const deadline = Date.now() + patienceMs;
      while ((await inspectServer(pid, clusterDir)) !== undefined) {
        if (Date.now() > deadline) return false;
        await sleep(10);
      }
      return true;
    },
  );
  if (!stopped) {
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_IN_USE', `The left-over postgres process ${pid} does not end.`);
  }
}

/** Whether `pid` is a live PostgreSQL server of this cluster, and whether Baton started it. */
async function inspectServer(pid: number, clusterDir: string): Promise<'own' | 'foreign' | undefined> {
  const { args, cwd } = process.platform === 'linux' ? await inspectLinux(pid) : await inspectWithPs(pid);
  if (basename(args[0] ?? '') !== 'postgres') return undefined;
  // A server works in its data directory, but its command line may name that by another path.
  if (cwd !== clusterDir && !args.includes(clusterDir)) return undefined;
  return args.includes(OWN_CLUSTER_SETTING) ? 'own' : 'foreign';
}

async function inspectLinux(pid: number): Promise<{ args: string[]; cwd: string | undefined }> {
  // A zombie has an empty command line, so an ended server that is not reaped yet does not count as alive.
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  return { args: commandLine.split('\0'), cwd };
}

async function inspectWithPs(pid: number): Promise<{ args: string[]; cwd: undefined }> {
  const ps = await run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).catch(() => ({ stdout: '' }));
  // `ps` joins arguments by blanks. Settings start with ` -D ` and ` -c `, so that paths with blanks survive.
  const [program = '', ...settings] = ps.stdout.trim().split(/ -[Dc] /);
  return { args: [program, ...settings], cwd: undefined };
}
