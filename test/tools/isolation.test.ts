import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { COMMAND_LIMITS } from '../../src/domain/tunables.ts';
import { findIsolation } from '../../src/tools/isolation.ts';
import { createFixture } from './workspace-fixture.ts';

const WORKER = new URL('./apart-worker.ts', import.meta.url).pathname;
const SECRET = 'sk-canary-456';
const NOBODY = {
  isRoot: false,
  prefix: ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--'],
};
const run = promisify(execFile);

const here = await findIsolation(process.pid, COMMAND_LIMITS);
const isRoot = process.getuid?.() === 0;
const isNobodyApart = isRoot && (await findIsolation(process.pid, COMMAND_LIMITS, NOBODY)).isApart;
if (!here.isApart) process.stdout.write('left out: this system keeps no command apart from its worker\n');
if (!isNobodyApart)
  process.stdout.write('left out: this system has no user namespaces for other accounts, or this is not root\n');

/** The outputs of a command as `bash` and as a stdio MCP server, in a worker that was started with a secret. */
async function sayOfBoth(command: string): Promise<readonly string[]> {
  await using workspace = await createFixture();
  const env = { ...process.env, OPENAI_API_KEY: SECRET };
  const { stdout } = await run(process.execPath, [WORKER, workspace.root, command], { env });
  const { ofBash, ofServer } = z.object({ ofBash: z.string(), ofServer: z.string() }).parse(JSON.parse(stdout));
  return [ofBash.replace('\n[exit code 0]', ''), ofServer.trimEnd()];
}

/** Starts a process of the account `nobody` with a secret in its environment. */
async function startHolder() {
  const [file = '', ...args] = [...NOBODY.prefix, 'sh', '-c', 'echo started; read _'];
  const child = spawn(file, args, { env: { ...process.env, OPENAI_API_KEY: SECRET }, cwd: '/' });
  await once(child.stdout, 'data');
  const { pid = 0 } = child;
  return {
    pid,
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      child.stdin.end();
      await ended;
    },
  };
}

describe.skipIf(!here.isApart)('a command beside a worker with secrets', () => {
  it('finds none of them in /proc, by whatever entry', async () => {
    const look = 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -c "^OPENAI_API_KEY=sk-canary"; true';
    expect(await sayOfBoth(look)).toEqual(['0', '0']);
  });

  it.each(['environ', 'maps', 'auxv', 'root/etc/passwd'])('cannot open /proc/PID/%s of the worker', async (entry) => {
    const open = `if head -c 1 /proc/$WORKER/${entry} >/dev/null 2>&1; then echo open; else echo closed; fi`;
    expect(await sayOfBoth(open)).toEqual(['closed', 'closed']);
  });

  it('has limits of memory and file size', async () => {
    const [ofBash = '', ofServer = ''] = await sayOfBoth('cat /proc/self/limits');
    for (const said of [ofBash, ofServer]) {
      expect(limitIn(said, 'file size')).toBeLessThanOrEqual(COMMAND_LIMITS.fileBytes);
      expect(limitIn(said, 'data size')).toBeLessThanOrEqual(COMMAND_LIMITS.memoryBytes);
    }
  });
});

describe.skipIf(!here.isApart)('the priority of a command', () => {
  it('is lower than that of its worker', async () => {
    const [ofBash = '', ofServer = ''] = await sayOfBoth('nice');
    const own = getPriority();
    expect([Number(ofBash), Number(ofServer)]).toEqual([Math.min(19, own + 10), Math.min(19, own + 10)]);
  });

  it('is lower among sessions of processes, too', async () => {
    // The shell beside the command sets the priority as soon as Linux accepts another change.
    const wait = 'for _ in $(seq 50); do grep -q "nice 10" /proc/self/autogroup && break; sleep 0.1; done';
    const said = await sayOfBoth(`[ ! -e /proc/self/autogroup ] || { ${wait}; cat /proc/self/autogroup; }`);
    for (const one of said) expect(one).toMatch(/^$|nice 10$/);
  });
});

describe.skipIf(!here.isApart)('the limits of a command', () => {
  it('end it where it wants more memory, or a larger file', async () => {
    const { prefix } = await findIsolation(process.pid, { processes: 100, memoryBytes: 100e6, fileBytes: 1e6 });
    const folder = await mkdtemp(`${tmpdir()}/limits-`);
    const start = (script: string) => run(prefix[0] ?? '', [...prefix.slice(1), 'sh', '-c', script], { cwd: folder });
    await start('truncate -s 999K small; dd if=/dev/zero of=/dev/null bs=50M count=1');
    await expect(start('truncate -s 2M large')).rejects.toThrow();
    await expect(start('dd if=/dev/zero of=/dev/null bs=500M count=1')).rejects.toThrow(/memory/);
    await rm(folder, { recursive: true });
  });
});

describe.skipIf(!isNobodyApart)('a command of an account without rights', () => {
  it('reads the environment of its account’s processes only where it is not kept apart', async () => {
    await using holder = await startHolder();
    const { isApart, prefix } = await findIsolation(holder.pid, COMMAND_LIMITS, NOBODY);
    const look = (between: readonly string[]) => {
      const [file = '', ...args] = [...NOBODY.prefix, ...between, 'sh', '-c', `cat /proc/${holder.pid}/environ; true`];
      return run(file, args, { cwd: '/' });
    };
    expect((await look([])).stdout).toContain(SECRET);
    expect(isApart).toBe(true);
    expect((await look(prefix)).stdout).toBe('');
  });

  it('cannot fork without end', async () => {
    const { prefix } = await findIsolation(process.pid, { ...COMMAND_LIMITS, processes: 30 }, NOBODY);
    const bomb = 'for no in $(seq 200); do sleep 1000 & done; echo all';
    const [file = '', ...args] = [...NOBODY.prefix, ...prefix, 'sh', '-c', bomb];
    const child = spawn(file, args, { cwd: '/', detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = once(child, 'exit');
    const said = child.stderr.setEncoding('utf8').toArray();
    await exited;
    process.kill(-(child.pid ?? 0), 'SIGKILL');
    expect((await said).join('')).toMatch(/fork/);
    expect((await child.stdout.toArray()).join('')).toBe('');
  });
});

it('is not kept apart, and has no limits, where nothing of that works', async () => {
  expect(await findIsolation(process.pid, COMMAND_LIMITS, { isRoot: true, prefix: ['false'] })).toEqual({
    isApart: false,
    prefix: [],
  });
});

function limitIn(limits: string, name: string): number {
  return Number(new RegExp(`^Max ${name} +\\S+ +(\\d+)`, 'm').exec(limits)?.[1]);
}
