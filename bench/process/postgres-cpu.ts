import { readdir, readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import type { Db } from '../../src/store/db/database.ts';

/** Linux reports processor time in hundredths of a second, in every build of its kernel. */
const TICK_MS = 10;

/**
 * Finds the server by the backend that answers, which must run on this machine.
 * @returns a function that reads the milliseconds of processor time that all processes of the server have used, ended
 * ones too; null where its processes cannot be seen: on another machine, in a container, without Linux
 */
export async function postgresCpu(db: Db): Promise<(() => Promise<number>) | null> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db);
  const backend = await timesOf(rows[0]?.pid ?? 0);
  if (backend === null || !backend.name.startsWith('postgres')) return null;
  const server = backend.parent;
  return async () => {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
    const times = await Promise.all(pids.map(timesOf));
    const own = times.filter((each) => each !== null && each.parent === server);
    const ended = (await timesOf(server))?.ofEndedChildren ?? 0;
    return (ended + own.reduce((sum, each) => sum + (each?.own ?? 0), 0)) * TICK_MS;
  };
}

type Times = Readonly<{ name: string; parent: number; own: number; ofEndedChildren: number }>;

/** @returns null if the process has ended */
async function timesOf(pid: number): Promise<Times | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  if (stat === null) return null;
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  // After the name: state, parent, and from the twelfth on utime, stime, cutime, cstime.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const at = (index: number): number => fields[index] ?? 0;
  return { name, parent: at(1), own: at(11) + at(12), ofEndedChildren: at(13) + at(14) };
}
