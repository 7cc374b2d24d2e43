import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { COMMAND_LIMITS } from '../domain/tunables.ts';

/** A way to start processes of foreign programs on this system. */
export type Isolation = Readonly<{
  /** True: they cannot read this process's environment and memory from `/proc`. */
  isApart: boolean;
  /** Arguments that precede a command. */
  prefix: readonly string[];
}>;

export type CommandLimits = Readonly<{ processes: number; memoryBytes: number; fileBytes: number }>;

const run = promisify(execFile);
const PROBE_TIMEOUT_MS = 15_000;
/** Capabilities of commands of root: for files and accounts, none that read other processes. */
const KEPT_CAPABILITIES = ['chown', 'dac_override', 'fowner', 'fsetid', 'setgid', 'setuid'];
/** Commands give way to workers: a step that has to renew its lease is worth more than a build. */
const NICENESS = 10;
const HARD_LIMITS = /^Max (?<name>file size|data size|processes) +\S+ +(?<hard>\d+)/gm;

/**
 * Lines of a shell that lead a session of processes: they give way to workers. Linux may share the CPU among sessions
 * first (`autogroup`), where niceness counts within a session only; it then takes one change in a tenth of a second.
 */
export const GIVE_WAY = `
for _ in 1 2 3 4 5; do
  [ -w /proc/self/autogroup ] || break
  echo ${NICENESS} >/proc/self/autogroup && break
  sleep 0.1
done
`;

let cached: Promise<Isolation> | undefined;

/** The best isolation that works on this system. It is probed once per process. */
export function isolationOfCommands(): Promise<Isolation> {
  cached ??= findIsolation(process.pid, COMMAND_LIMITS);
  return cached;
}

/**
 * Tries the ways of this system in turn.
 * @param pid of a process of this account; started commands must not be able to read its `/proc/PID/environ`
 * @param account of the commands, if not that of this process: `prefix` switches to it
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
 * Linux shows the environment and memory of a process only to processes that could trace it. A process of the same
 * account could not, if it is in another user namespace or has fewer capabilities.
 * - root loses capabilities. In a namespace of its own it could no longer touch files of other accounts.
 * - Other accounts have none to lose: they get a user namespace that maps their own id. Only this namespace's processes
 *   count towards the process limit; elsewhere all processes of the account would count, and root is exempt.
 */
function waysApart(isRoot: boolean, limits: CommandLimits): Isolation[] {
  const nice = ['nice', '-n', String(NICENESS)];
  const perProcess = [
    ...nice,
    'prlimit',
    `--data=${limits.memoryBytes}`,
    `--fsize=${limits.fileBytes}`,
    '--core=0',
    '--',
  ];
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

/** A process may only lower its hard limits. */
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

/** Whether a command can be started with this prefix and cannot read the environment of `closedPid`, if given. */
async function works(prefix: readonly string[], closedPid: number | null): Promise<boolean> {
  const script = closedPid === null ? 'true' : `! cat /proc/${closedPid}/environ >/dev/null 2>&1`;
  const [file = 'sh', ...args] = [...prefix, 'sh', '-c', script];
  return run(file, args, { cwd: '/', timeout: PROBE_TIMEOUT_MS }).then(
    () => true,
    () => false,
  );
}
