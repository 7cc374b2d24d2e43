import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { loadConfig } from '../../src/runtime/config.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

async function startedUrl(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('no stdout');
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as Record<string, unknown>;
    if (entry['event'] === 'process_started') return String(entry['url']);
  }
  throw new Error('the service did not start');
}

it('works when the three commands of the README are pasted: create, send, follow', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-readme-'));
  await writeFile(path.join(folder, 'notes.txt'), 'some errors are noted here\n');
  const child = spawn(process.execPath, ['src/cli/start.ts'], {
    cwd: ROOT,
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      BATON_PORT: '0',
      BATON_DATA_DIR: path.join(folder, 'data'),
      BATON_WORKSPACE_DIR: folder,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  try {
    const url = await startedUrl(child);
    const readme = await readFile(path.join(ROOT, 'README.md'), 'utf8');
    const block = /```sh\n(SESSION=[\s\S]*?)```/.exec(readme)?.[1] ?? '';
    expect(block.match(/curl/g)?.length).toBe(3);
    const script = block.replaceAll('localhost:4400', url.replace('http://', ''));
    const untilCompleted = `set -o pipefail\n${script.trimEnd()} | sed '/^event: run:completed/q'`;
    const { stdout } = await promisify(execFile)('bash', ['-c', untilCompleted], { maxBuffer: 10_000_000 }).catch(
      // curl ends with a write error once sed has seen enough.
      (error: { stdout: string }) => error,
    );
    expect(stdout).toContain('"queued":false');
    expect(stdout).toContain('event: llm:tool-result');
    expect(stdout).toContain('event: run:completed');
  } finally {
    child.kill('SIGINT');
    await exited;
    await rm(folder, { recursive: true, force: true });
  }
  expect(child.exitCode).toBe(0);
});

it('names only settings that exist, and every setting', async () => {
  const readme = await readFile(path.join(ROOT, 'README.md'), 'utf8');
  const named = new Set(
    readme.match(/\b(?:BATON_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL|(?:OPENAI|ANTHROPIC)_[A-Z_]*[A-Z])\b/g),
  );
  for (const variable of named) {
    if (variable === 'BATON_CONFIG') continue;
    // A value that no setting takes: the error names the variable if it is known, and calls it unknown otherwise.
    const problem = (() => {
      try {
        loadConfig({ [variable]: '\u0000 ' });
        return '';
      } catch (error) {
        return String(error);
      }
    })();
    expect(problem, variable).not.toContain('unknown settings');
  }
  const { VARIABLES } = await import('../../src/runtime/config.ts');
  for (const variable of Object.values(VARIABLES)) expect(named, variable).toContain(variable);
});
