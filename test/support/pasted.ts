import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { writeSampleProject } from '../../src/cli/demo/sample-project.ts';
import { childEnvironment } from './child-environment.ts';
import { createTestDatabase } from './postgres.ts';
import { temporaryFolder } from './temporary-folder.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export const readPage = (page: string): Promise<string> => readFile(path.join(ROOT, page), 'utf8');

type Block = Readonly<{ language: string; text: string }>;

/** The fenced blocks of a page. */
export async function blocksOf(page: string): Promise<Block[]> {
  const fenced = (await readPage(page)).matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm);
  return [...fenced].map(([, language = '', text = '']) => ({ language, text }));
}

/** The first text in backticks on a page with this beginning. */
export async function commandOf(page: string, beginning: string): Promise<string> {
  const commands = [...(await readPage(page)).matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
  const found = commands.find((text) => text.startsWith(beginning));
  if (found === undefined) throw new Error(`${page} has no command ${beginning}`);
  return found;
}

/** A temporary folder inside this package, where the package's own name resolves to it. Git ignores it. */
export async function folderInside(): Promise<AsyncDisposable & { path: string }> {
  const folder = path.join(ROOT, '.baton', `pasted-${randomBytes(6).toString('hex')}`);
  await mkdir(folder, { recursive: true });
  return { path: folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

type Texts<Languages extends readonly string[]> = { [Index in keyof Languages]: string };

/** The blocks of a page, which has these and no others: a block that is added to the page needs a test, too. */
export async function takeBlocks<const Languages extends readonly string[]>(
  page: string,
  languages: Languages,
): Promise<Texts<Languages>> {
  const blocks = await blocksOf(page);
  expect(
    blocks.map(({ language }) => language),
    `the blocks of ${page}`,
  ).toEqual(languages);
  return blocks.map(({ text }) => text) as Texts<Languages>;
}

/**
 * A service that was started as a page says, with its own folder and database, and means to run the page's other
 * blocks.
 */
export type PastedService = AsyncDisposable &
  Readonly<{
    url: string;
    folder: string;
    /** The output for people so far: on stderr. */
    said: () => string;
    /** The output of a shell that runs this text, with any exit code. @param cwd default: this repository */
    run: (script: string, cwd?: string) => Promise<string>;
    /** The output of a program inside this package, run by the command that this page names for it. */
    runProgram: (page: string, program: string) => Promise<string>;
    /** Starts a program and waits until it prints its URL. */
    startBeside: (command: string) => Promise<AsyncDisposable & { url: string }>;
  }>;

export type PastedOptions = Readonly<{
  /** The command of the page that starts the service; default `npm start`. */
  command?: string;
  /** `FOLDER` in a value means the service's own folder. */
  environment?: Readonly<Record<string, string>>;
  /** Texts by their paths in the folder. */
  files?: Readonly<Record<string, string>>;
  /** Installed packages that modules in the folder import. */
  packages?: readonly string[];
  /**
   * `embedded`: the service makes its own, as on a machine without Postgres. Default: a test database, which takes less
   * time.
   */
  database?: 'embedded' | 'given';
}>;

/**
 * Starts the service, with the workspace that `npm start` makes. Disposal ends it as Ctrl-C does, and fails if the end
 * is not clean.
 */
export async function startPasted({
  command = 'npm start',
  environment = {},
  files = {},
  packages = [],
  database = 'given',
}: PastedOptions = {}): Promise<PastedService> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder());
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  const workspace = path.join(folder, 'workspace');
  await writeSampleProject(workspace);
  await mkdir(path.join(folder, 'node_modules'));
  for (const name of packages) {
    await symlink(path.join(ROOT, 'node_modules', name), path.join(folder, 'node_modules', name));
  }
  const given = database === 'given' ? { DATABASE_URL: stack.use(await createTestDatabase()).connectionString } : {};
  const inFolder = Object.entries(environment).map(([name, value]) => [name, value.replaceAll('FOLDER', folder)]);
  const settings = {
    ...childEnvironment({}),
    BATON_DATA_DIR: path.join(folder, 'data'),
    BATON_WORKSPACE_DIR: workspace,
    ...given,
    ...Object.fromEntries(inFolder),
  };
  const start = async (
    script: string,
    more: Readonly<Record<string, string>>,
    urlIn: (line: string) => string | null,
  ) => startProgram(await withoutNpm(script), { ...settings, ...more }, urlIn);
  const { url, said } = stack.use(await start(command, { BATON_PORT: '0' }, urlInLog));
  const pasted = (text: string): string => text.replaceAll(/(?:localhost|127\.0\.0\.1):4400/g, new URL(url).host);
  const run = async (script: string, cwd = ROOT): Promise<string> => {
    const options = { cwd, env: { ...settings, BATON_URL: url }, maxBuffer: 10_000_000 };
    // curl ends with a write error once sed has seen enough.
    const { stdout } = await promisify(execFile)('bash', ['-c', `set -o pipefail\n${pasted(script)}`], options).catch(
      (error: { stdout: string }) => error,
    );
    return stdout;
  };
  const owned = stack.move();
  return {
    url,
    folder,
    said,
    run,
    async runProgram(page, program) {
      await using inside = await folderInside();
      const file = path.join(inside.path, 'try.ts');
      await writeFile(file, pasted(program));
      const command = await commandOf(page, 'npx node');
      expect(command, page).toMatch(/ try\.ts$/);
      return await run(command.replace('try.ts', file));
    },
    startBeside: (beside) =>
      start(beside, { BATON_URL: url, PORT: '0' }, (line) => /https?:\/\/[\w.:]+/.exec(line)?.[0] ?? null),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The script that npm would run. npm itself is left out, because it does not always pass signals on. */
async function withoutNpm(command: string): Promise<string> {
  const { scripts } = JSON.parse(await readPage('package.json')) as { scripts: Record<string, string> };
  return command.replace(
    /\bnpm (?:run (?:-s )?)?([\w:]+)/,
    (whole, name: string) => scripts[name]?.replace(/^exec /, '') ?? whole,
  );
}

const urlInLog = (line: string): string | null => {
  const entry = JSON.parse(line) as Readonly<Record<string, unknown>>;
  return entry['event'] === 'process_started' ? String(entry['url']) : null;
};

export async function startProgram(
  command: string,
  environment: NodeJS.ProcessEnv,
  urlIn: (line: string) => string | null,
): Promise<AsyncDisposable & { url: string; said: () => string }> {
  // Assignments stay where they are: `A=b exec node …` gives them to the program.
  const script = command.trim().replace(/^((?:\w+=\S+ )*)/, '$1exec ');
  const child = spawn('bash', ['-c', script], { cwd: ROOT, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit');
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const url = await firstUrl(child, urlIn);
  if (url === null) throw new Error(`${command} ended with ${(await exited)[0]}: ${stderr}`);
  return {
    url,
    said: () => stderr,
    async [Symbol.asyncDispose]() {
      child.kill('SIGINT');
      const [exitCode, signal] = await exited;
      // An example has no handler of its own for SIGINT.
      if (exitCode !== 0 && signal !== 'SIGINT') throw new Error(`${command} ended with ${exitCode}: ${stderr}`);
    },
  };
}

function firstUrl(child: ChildProcess, urlIn: (line: string) => string | null): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  if (child.stdout === null) throw new Error('no stdout');
  createInterface({ input: child.stdout })
    .on('line', (line) => {
      const url = urlIn(line);
      if (url !== null) resolve(url);
    })
    .once('close', () => resolve(null));
  return promise;
}
