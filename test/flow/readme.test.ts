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
import { childEnvironment } from '../support/child-environment.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

async function startedUrl(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('no stdout');
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as Record<string, unknown>;
    if (entry['event'] === 'process_started') return String(entry['url']);
  }
  throw new Error('the service did not start');
}

type Pasted = Readonly<{ readme: string; run: (script: string) => Promise<string> }>;

/** Starts what the README starts, on nothing but a new folder, and ends it after the work. */
async function withService(work: (pasted: Pasted) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-readme-'));
  await writeFile(path.join(folder, 'notes.txt'), 'some errors are noted here\n');
  const environment = {
    ...childEnvironment({}),
    BATON_DATA_DIR: path.join(folder, 'data'),
    BATON_WORKSPACE_DIR: folder,
  };
  const child = spawn(process.execPath, ['src/cli/baton.ts', 'dev'], {
    cwd: ROOT,
    env: { ...environment, BATON_PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  try {
    const url = await startedUrl(child);
    const run = async (block: string): Promise<string> => {
      const script = `set -o pipefail\n${block.replaceAll('localhost:4400', url.replace('http://', ''))}`;
      const options = { cwd: ROOT, env: { ...environment, BATON_URL: url }, maxBuffer: 10_000_000 };
      // curl ends with a write error once sed has seen enough.
      const { stdout } = await promisify(execFile)('bash', ['-c', script], options).catch(
        (error: { stdout: string }) => error,
      );
      return stdout;
    };
    await work({ readme: await readFile(path.join(ROOT, 'README.md'), 'utf8'), run });
  } finally {
    child.kill('SIGINT');
    await exited;
    await rm(folder, { recursive: true, force: true });
  }
  expect(child.exitCode).toBe(0);
}

it('works when the three commands of the README are pasted: create, send, follow', () =>
  withService(async ({ readme, run }) => {
    const block = /```sh\n(SESSION=[\s\S]*?)```/.exec(readme)?.[1] ?? '';
    expect(block.match(/curl/g)?.length).toBe(3);
    const stdout = await run(`${block.trimEnd()} | sed '/^event: run:completed/q'`);
    expect(stdout).toContain('"queued":false');
    expect(stdout).toContain('event: llm:tool-result');
    expect(stdout).toContain('event: run:completed');
  }));

it('works when the command line and the client of the README are pasted', () =>
  withService(async ({ readme, run }) => {
    const commands = /```sh\n(npm run -s baton[\s\S]*?)```/.exec(readme)?.[1] ?? '';
    expect(await run(commands)).toMatch(/✓ completed after \d+ steps[\s\S]*ses_[0-9a-f]{32} {2}idle/);
    const program = /```ts\n(import \{ createClient[\s\S]*?)```/.exec(readme)?.[1] ?? '';
    const script = program.replace('http://127.0.0.1:4400', 'http://localhost:4400');
    const shown = await run(`node --conditions=baton-source --input-type=module-typescript <<'EOF'\n${script}EOF\n`);
    expect(shown).toMatch(/errors[\s\S]*false completed\n$/);
  }));

it('works when the commands and the client of docs/facades.md are pasted', () =>
  withService(async ({ run }) => {
    const docs = await readFile(path.join(ROOT, 'docs/facades.md'), 'utf8');
    const [chat = '', completions = ''] = [...docs.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block);
    const told = await run(chat);
    expect(told).toMatch(/"type":"start"[\s\S]*"type":"finish"[\s\S]*data: \[DONE\][\s\S]*"messages":\[/);
    expect(told).toContain('errors');
    expect(await run(completions)).toMatch(
      /"object":"chat\.completion"[\s\S]*"finish_reason":"stop"[\s\S]*"owned_by":"baton"/,
    );
    const program = /```ts\n(import OpenAI[\s\S]*?)```/.exec(docs)?.[1] ?? '';
    expect(await run(`node --input-type=module-typescript <<'EOF'\n${program}EOF\n`)).toContain('errors');
  }));

it('asks for a key once the commands under Access are pasted, beside the service that has the database', () =>
  withService(async ({ readme, run }) => {
    const block = /```sh\n(KEY=[\s\S]*?)```/.exec(readme)?.[1] ?? '';
    const stdout = await run(block);
    expect(stdout).toMatch(/^{"sessions":\[\],"nextCursor":null}key_[0-9a-f]{32} {2}baton_[\w-]{4}… /);
    expect(stdout).toContain('"code":"unauthenticated"');
  }));

it('names only settings that exist, and every setting', async () => {
  const readme = await readFile(path.join(ROOT, 'README.md'), 'utf8');
  const named = new Set(
    readme.match(/\b(?:BATON_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL|(?:OPENAI|ANTHROPIC|OTEL)_[A-Z_]*[A-Z])\b/g),
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
