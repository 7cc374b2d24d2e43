import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { COMMAND_LIMITS } from '../domain/tunables.ts';

/** How processes that are none of ours are started here. */
export type Isolation = Readonly<{
  /** Whether they cannot read what this process was started with, and has in its memory, from `/proc`. */
  isApart: boolean;
  /** To be put before a command. */
  prefix: readonly string[];
}>;

export type CommandLimits = Readonly<{ processes: number; memoryBytes: number; fileBytes: number }>;

const run = promisify(execFile);
const PROBE_TIMEOUT_MS = 15_000;
/** What commands of root may need on files and accounts: less than root has, and nothing that reads other processes. */
const KEPT_CAPABILITIES = ['chown', 'dac_override', 'fowner', 'fsetid', 'setgid', 'setuid'];
const HARD_LIMITS = /^Max (?<name>file size|data size|processes) +\S+ +(?<hard>\d+)/gm;

let known: Promise<Isolation> | undefined;

/** The best way that works on this system, found out once per process by trying. */
export function isolationOfCommands(): Promise<Isolation> {
  known ??= findIsolation(process.pid, COMMAND_LIMITS);
  return known;
}

/**
 * Tries the ways of this system in turn.
 *
 * @param pid of a process of this account, whose `/proc/PID/environ` must be closed to what is started
 * @param account what commands run as, where that is not as this process does: a prefix that becomes it
 */
export async function findIsolation(
  pid: number,
  limits: CommandLimits,
  account: Readonly<{ isRoot: boolean; prefix: readonly string[] }> = { isRoot: process.getuid?.() === 0, prefix: [] },
): Promise<Isolation> {
  if (process.platform !== 'linux') return { isApart: false, prefix: [] };
  const ways = waysApart(account.isRoot, await withinHardLimits(limits));
  for (const { isApart, prefix } of ways) {
    if (await works([...account.prefix, ...prefix], isApart ? pid : null)) return { isApart, prefix };
  }
  return { isApart: false, prefix: [] };
}

/**
 * Linux shows the environment and the memory of a process to those that could trace it. Who is in another user namespace,
 * or has fewer capabilities, could not, though it is the same account.
 *
 * - root loses capabilities. In a namespace of its own it could no longer touch files of other accounts.
 * - Other accounts have none to lose: they get a user namespace in which they are who they were. The number of processes
 *   is counted for it alone; elsewhere it would be that of everything the account runs, and root is exempt.
 */
function waysApart(isRoot: boolean, limits: CommandLimits): Isolation[] {
  const perProcess = ['prlimit', `--data=${limits.memoryBytes}`, `--fsize=${limits.fileBytes}`, '--core=0', '--'];
  const kept = ['-all', ...KEPT_CAPABILITIES.map((name) => `+${name}`)].join(',');
  const asRoot = ['setpriv', '--inh-caps=-all', `--bounding-set=${kept}`, '--no-new-privs', '--', ...perProcess];
  const asOthers = [
    ...['unshare', '--user', '--map-current-user', '--'],
    ...['setpriv', '--no-new-privs', '--', 'prlimit', `--nproc=${limits.processes}`, '--', ...perProcess],
  ];
  return [
    { isApart: true, prefix: isRoot ? asRoot : asOthers },
    { isApart: false, prefix: perProcess },
  ];
}

/** Limits may only be lowered. */
async function withinHardLimits(limits: CommandLimits): Promise<CommandLimits> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const hard = new Map(
    [...text.matchAll(HARD_LIMITS)].map(({ groups }) => [groups?.['name'], Number(groups?.['hard'])]),
  );
  const lower = (wanted: number, name: string): number => Math.min(wanted, hard.get(name) ?? wanted);
  return {
    processes: lower(limits.processes, 'processes'),
    memoryBytes: lower(limits.memoryBytes, 'data size'),
    fileBytes: lower(limits.fileBytes, 'file size'),
  };
}

/** Whether a command can be started so, and cannot read the environment of a process. */
async function works(prefix: readonly string[], closedPid: number | null): Promise<boolean> {
  const script = closedPid === null ? 'true' : `! cat /proc/${closedPid}/environ >/dev/null 2>&1`;
  const [file = 'sh', ...args] = [...prefix, 'sh', '-c', script];
  return run(file, args, { cwd: '/', timeout: PROBE_TIMEOUT_MS }).then(
    () => true,
    () => false,
  );
}
