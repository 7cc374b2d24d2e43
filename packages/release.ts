import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { buildPackages } from './build.ts';

const ROOT = path.join(import.meta.dirname, '..');
const FOLDER = path.join(ROOT, 'dist/packages');

/** The template of the last one depends on the first two. */
const PACKAGES = ['client', 'server', 'create-baton-run'];

/**
 * Finds the reasons not to release a checkout, as sentences for the person who releases.
 * @param checkout `status`: the output of `git status --porcelain`; `changesets`: the names of the files in `.changeset`
 */
export function releaseProblems(
  checkout: Readonly<{ version: string; status: string; changesets: readonly string[]; changelog: string }>,
): string[] {
  const { version, status, changesets, changelog } = checkout;
  const pending = changesets.filter((name) => name.endsWith('.md') && name !== 'README.md');
  return [
    ...(status === '' ? [] : [`Commit or remove what is not committed:\n${status}`]),
    ...(pending.length === 0 ? [] : [`Run npm run changes:version: ${pending.join(', ')} is not in CHANGELOG.md.`]),
    ...(changelog.split('\n').includes(`## ${version}`) ? [] : [`CHANGELOG.md has no section ## ${version}.`]),
  ];
}

const run = promisify(execFile);

async function readCheckout(): Promise<Parameters<typeof releaseProblems>[0]> {
  const [manifest, changelog, changesets, { stdout: status }] = await Promise.all([
    readFile(path.join(ROOT, 'package.json'), 'utf8'),
    readFile(path.join(ROOT, 'CHANGELOG.md'), 'utf8'),
    readdir(path.join(ROOT, '.changeset')),
    run('git', ['status', '--porcelain'], { cwd: ROOT }),
  ]);
  return { version: JSON.parse(manifest).version, status, changesets, changelog };
}

/** Runs a command in view of the person. @throws Error with the command when it fails */
async function show(command: string, args: readonly string[], cwd: string): Promise<void> {
  const [code] = await once(spawn(command, args, { cwd, stdio: 'inherit' }), 'exit');
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed in ${cwd}`);
}

/** So a release that failed half-way can be run again. */
async function isPublished(folder: string, version: string): Promise<boolean> {
  const { name } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  const { stdout } = await run('npm', ['view', `${name}@${version}`, 'version']).catch((error) => {
    if (String(error.stderr).includes('E404')) return { stdout: '' };
    throw error;
  });
  return stdout.trim() === version;
}

/** Publishes the three packages of this version with provenance, then tags it. */
async function release(isDryRun: boolean): Promise<void> {
  const checkout = await readCheckout();
  const problems = releaseProblems(checkout);
  if (problems.length > 0) throw new Error(problems.join('\n'));
  await buildPackages(FOLDER);
  for (const name of PACKAGES) {
    const folder = path.join(FOLDER, name);
    if (isDryRun) await show('npm', ['pack', '--dry-run'], folder);
    else if (!(await isPublished(folder, checkout.version))) await show('npm', ['publish'], folder);
  }
  if (isDryRun) return;
  await show('git', ['tag', `v${checkout.version}`], ROOT);
  await show('git', ['push', 'origin', `v${checkout.version}`], ROOT);
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean', default: false } } });
  await release(values['dry-run']).catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
