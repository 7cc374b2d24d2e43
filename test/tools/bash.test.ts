import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createBoundedOutput } from '../../src/tools/workspace/supervised-command.ts';
import { eventually } from '../support/eventually.ts';
import { untilHolds } from '../support/until-holds.ts';
import { createFixture, type Fixture, isRunning } from './workspace-fixture.ts';

const WORKER = new URL('./bash-worker.ts', import.meta.url).pathname;
/** A shell, its child and a grandchild, each writing its pid to the file `pids`, that would run for a long time. */
const FAMILY = 'echo $$ >> pids; (echo $BASHPID >> pids; sleep 1000 & echo $! >> pids; wait) & wait';
const STUBBORN_FAMILY = `trap "" TERM; ${FAMILY}`;

const secrets = { OPENAI_API_KEY: 'sk-secret', DATABASE_URL: 'postgres://secret', NODE_OPTIONS: '--no-warnings' };

async function familyOf(workspace: Fixture): Promise<readonly number[]> {
  return eventually(async () => {
    const pids = (await linesOf(workspace, 'pids')).map(Number);
    return pids.length === 3 && pids;
  }, 'the whole family has started');
}

/** The lines of a file that a command writes, also before it does. */
async function linesOf(workspace: Fixture, name: string): Promise<string[]> {
  const text = await readFile(join(workspace.root, name), 'utf8').catch(() => '');
  return text.split('\n').slice(0, -1);
}

async function expectGone(pids: readonly number[]): Promise<void> {
  await untilHolds(() => expect(pids.filter(isRunning)).toEqual([]));
}

describe('bash', () => {
  const workers: ChildProcess[] = [];
  afterEach(() => {
    vi.unstubAllEnvs();
    for (const worker of workers.splice(0)) worker.kill('SIGKILL');
  });

  it('runs bash in the root and returns stdout and stderr in order with the exit code', async () => {
    await using workspace = await createFixture();
    const command = 'pwd; echo one; echo two >&2; echo three > /dev/stderr; [[ a == a ]] && echo four; exit 3';
    expect(await workspace.call('bash', { command })).toBe(`${workspace.root}\none\ntwo\nthree\nfour\n[exit code 3]`);
    expect(await workspace.call('bash', { command: 'true' })).toBe('[no output]\n[exit code 0]');
    expect(await workspace.call('bash', { command: 'printf x; kill -KILL $$' })).toBe('x\n[exit code 137]');
    expect(await workspace.call('bash', { command: 'kill -KILL 0' })).toContain('[exit code unknown');
  });

  it('gives no input, and passes the command as it is', async () => {
    await using workspace = await createFixture();
    expect(await workspace.call('bash', { command: "cat; echo '$1' \"quo'ted\"; echo 'äö'" })).toBe(
      "$1 quo'ted\näö\n[exit code 0]",
    );
    await expect(workspace.call('bash', { command: 'a\u0000b' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('starts commands with the default signal handling', async () => {
    await using workspace = await createFixture();
    expect(await workspace.call('bash', { command: 'trap' })).toBe('[no output]\n[exit code 0]');
  });

  it('keeps the keys of the worker out of the environment', async () => {
    await using workspace = await createFixture();
    for (const [name, value] of Object.entries(secrets)) vi.stubEnv(name, value);
    const output = await workspace.call('bash', {
      command: 'env; cat /proc/self/environ 2>/dev/null | tr "\\0" "\\n"',
    });
    for (const name of Object.keys(secrets)) expect(output).not.toContain(name);
    expect(output).toContain('PATH=');
    expect(output).toContain('HOME=');
  });

  it('hands over long output whole: the view cuts it, and keeps the rest', async () => {
    await using workspace = await createFixture();
    const whole = `${Array.from({ length: 100_000 }, (_, index) => index + 1).join('\n')}\n`;
    expect(await workspace.call('bash', { command: 'seq 1 100000' })).toBe(`${whole}[exit code 0]`);
  });

  it('keeps head and tail of output without end and marks the cut', async () => {
    const output = createBoundedOutput(30_000);
    const whole = Array.from({ length: 300_000 }, (_, index) => `${index}\n`);
    for (const piece of whole) output.append(piece);
    const text = whole.join('');
    const [head, tail] = output.toString().split(/\n\[… \d+ characters cut here: [^\]]*\]\n/);
    expect([head, tail]).toEqual([text.slice(0, 15_000), text.slice(-15_000)]);
    expect(output.toString()).toContain(`[… ${text.length - 30_000} characters cut here`);
    const short = createBoundedOutput(10);
    for (const piece of ['12345', '67890']) short.append(piece);
    expect(short.toString()).toBe('1234567890');
  });

  it('needs little memory for output of hundreds of megabytes', async () => {
    await using workspace = await createFixture();
    const command = 'head -c 300000000 /dev/zero | tr "\\0" "a"';
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--max-old-space-size=96', WORKER, workspace.root, command],
      { maxBuffer: 10_000_000 },
    );
    expect(stdout).toContain('[… 295000200 characters cut here');
  });

  it('makes output storable: NUL and invalid UTF-8 are replaced', async () => {
    await using workspace = await createFixture();
    expect(await workspace.call('bash', { command: "printf 'a\\0b\\xff\\xe2\\x82'" })).toBe(
      'a\uFFFDb\uFFFD\uFFFD\n[exit code 0]',
    );
  });

  it('returns when the command ends although a background process holds the output open, and stops that process', async () => {
    await using workspace = await createFixture();
    const output = await workspace.call('bash', { command: 'sleep 1000 & echo $!; echo done' });
    expect(output).toMatch(/^\d+\ndone\n\[exit code 0\]$/);
    await expectGone([Number.parseInt(output, 10)]);
  });

  it('stops background processes that hold nothing open or ignore SIGTERM', async () => {
    await using workspace = await createFixture();
    const silent = await workspace.call('bash', { command: 'sleep 1000 >/dev/null 2>&1 & echo $!' });
    const stubborn = await workspace.call('bash', { command: '(trap "" TERM; exec sleep 1000) & echo $!' });
    expect(stubborn).toContain('[exit code 0]');
    await expectGone([Number.parseInt(silent, 10), Number.parseInt(stubborn, 10)]);
  });

  it('returns although a process that left the group holds the output open', async () => {
    await using workspace = await createFixture();
    const command =
      'setsid sleep 1000 & echo $!; until [ "$(ps -o pgid= -p $! | tr -d " ")" = $! ]; do sleep 0.01; done';
    const output = await workspace.call('bash', { command });
    process.kill(Number.parseInt(output, 10), 'SIGKILL');
    expect(output).toContain('[exit code 0]');
  });

  it('stops the whole group at the time limit and returns the output so far', async () => {
    await using workspace = await createFixture();
    const output = await workspace.call('bash', { command: `echo before; ${FAMILY}`, timeoutMs: 3_000 });
    expect(output).toBe('before\n[stopped after 3000 ms: the command and its processes were killed]');
    await expectGone(await familyOf(workspace));
    await expect(workspace.call('bash', { command: 'true', timeoutMs: 600_001 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('gives a command the chance to clean up after SIGTERM', async () => {
    await using workspace = await createFixture();
    const command = 'trap "echo cleaned > cleaned; exit" TERM; echo ready > ready; while :; do sleep 0.05; done';
    const controller = new AbortController();
    const running = workspace.call('bash', { command }, controller.signal);
    await eventually(async () => (await linesOf(workspace, 'ready')).length === 1, 'the command can clean up');
    controller.abort(new Error('cancelled'));
    await expect(running).rejects.toMatchObject({ code: 'ABORTED' });
    expect(await linesOf(workspace, 'cleaned')).toEqual(['cleaned']);
  });

  it.each([
    ['ordinary', FAMILY],
    ['SIGTERM-ignoring', STUBBORN_FAMILY],
  ])('stops the whole %s group, grandchildren too, when the call is aborted', async (_, command) => {
    await using workspace = await createFixture();
    const controller = new AbortController();
    const running = workspace.call('bash', { command: `echo before; ${command}` }, controller.signal);
    const pids = await familyOf(workspace);
    expect(pids.every(isRunning)).toBe(true);
    controller.abort(new Error('cancelled'));
    await expect(running).rejects.toMatchObject({ code: 'ABORTED', message: expect.stringContaining('before') });
    await expectGone(pids);
  });

  it.each([
    ['ordinary', FAMILY],
    ['SIGTERM-ignoring', STUBBORN_FAMILY],
  ])('stops the whole %s group when the worker is killed with SIGKILL', async (_, command) => {
    await using workspace = await createFixture();
    const worker = spawn(process.execPath, [WORKER, workspace.root, command], { stdio: 'ignore' });
    workers.push(worker);
    const pids = await familyOf(workspace);
    expect(pids.every(isRunning)).toBe(true);
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    await expectGone(pids);
  });

  it('stops the group when the command kills its own supervisor', async () => {
    await using workspace = await createFixture();
    const output = await workspace.call('bash', {
      command: 'kill -KILL "$(ps -o pgid= -p $$ | tr -d " ")"; echo $$ > pid; sleep 1000',
    });
    expect(output).toContain('[exit code unknown');
  });

  it('leaves no listener on the signal behind', async () => {
    await using workspace = await createFixture();
    const { signal } = new AbortController();
    await workspace.call('bash', { command: 'echo x; sleep 1000 &' }, signal);
    await workspace.call('grep', { pattern: 'x' }, signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('leaves nothing behind that keeps the worker from ending by itself', async () => {
    await using workspace = await createFixture();
    const worker = [WORKER, workspace.root, 'echo x; sleep 1000 &'];
    const { stdout } = await promisify(execFile)(process.execPath, worker, { timeout: 90_000 });
    expect(stdout).toBe('x\n[exit code 0]');
  });
});
