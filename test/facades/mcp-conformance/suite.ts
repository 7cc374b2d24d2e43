import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import type { NotOffered, NotRun } from './not-offered.ts';

const PROGRAM = path.join(import.meta.dirname, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
/** A scenario whose fixture is missing waits for as long. */
const SCENARIO_TIMEOUT_MS = 30_000;

/** npm ci --prefix test/facades/mcp-conformance */
export const isSuiteInstalled = existsSync(PROGRAM);

const checksSchema = z.array(z.object({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }));

export type SuiteResult = Readonly<{
  /** The scenarios that left a result. */
  scenarios: readonly string[];
  passed: number;
  failed: readonly string[];
  words: ReadonlyMap<string, string>;
}>;

export type Scenario = Readonly<{ name: string; revisions: readonly string[] }>;

/** The scenarios of the suite for servers, clients or authorization servers, with the revisions that each is for. */
export async function scenariosFor(role: 'Server' | 'Client' | 'Authorization server'): Promise<readonly Scenario[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, 'list']);
  const [, listed = ''] =
    new RegExp(`(?:^|\\n)${role} scenarios[^\\n]*\\n([\\s\\S]*?)\\n\\n`).exec(`${stdout}\n\n`) ?? [];
  return [...listed.matchAll(/- (\S+) \[([^\]]*)\]/g)].map(([, name = '', revisions = '']) => ({
    name,
    revisions: revisions.split(','),
  }));
}

/** @param args which scenarios, and of what */
export async function runSuite(role: 'server' | 'client', args: readonly string[]): Promise<SuiteResult> {
  await using folder = await temporaryFolder();
  const all = [PROGRAM, role, ...args, '-o', folder.path];
  const child = spawn(process.execPath, [...all, '--timeout', String(SCENARIO_TIMEOUT_MS)], { stdio: 'ignore' });
  await new Promise<void>((resolve, reject) => child.on('error', reject).on('close', () => resolve()));
  let passed = 0;
  const words = new Map<string, string>();
  const scenarios = new Set<string>();
  for await (const file of glob('**/checks.json', { cwd: folder.path })) {
    // SCENARIO-2026-11-28T08-04-47-708Z
    const scenario = path
      .dirname(file)
      .replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '')
      .replace(/^server-/, '');
    const checks = checksSchema.parse(JSON.parse(await readFile(path.join(folder.path, file), 'utf8')));
    scenarios.add(scenario);
    passed += checks.filter(({ status }) => status === 'SUCCESS').length;
    for (const { id, errorMessage } of checks.filter(({ status }) => status === 'FAILURE')) {
      words.set(`${scenario}/${id}`, errorMessage ?? '');
    }
  }
  return { scenarios: [...scenarios].sort(), passed, failed: [...words.keys()].sort(), words };
}

/** Failures that the list has no reason for. What is sent must always be valid. */
export function unexplained({ failed, words }: SuiteResult, lacks: readonly NotOffered[]): string[] {
  const patterns = lacks.flatMap(({ checks }) => checks);
  return failed
    .filter((check) => check.endsWith('/wire-schema-valid') || !patterns.some((pattern) => fits(pattern, check)))
    .map((check) => `${check}: ${words.get(check)}`);
}

/** Entries of the list that nothing fails any more. */
export const outdated = ({ failed }: Pick<SuiteResult, 'failed'>, lacks: readonly NotOffered[]): string[] =>
  lacks.flatMap(({ checks }) => checks).filter((pattern) => !failed.some((check) => fits(pattern, check)));

/** Scenarios of a revision, or of the extensions, that have neither a result nor a reason to be left out. */
export function unaccounted(
  listed: readonly Scenario[],
  revisions: readonly string[],
  done: readonly string[],
  notRun: readonly NotRun[],
): string[] {
  const patterns = notRun.flatMap(({ scenarios }) => scenarios);
  return listed
    .filter((scenario) => scenario.revisions.some((revision) => revisions.includes(revision)))
    .map(({ name }) => name)
    .filter((name) => !done.includes(name) && !patterns.some((pattern) => fits(pattern, name)));
}

const fits = (pattern: string, check: string): boolean =>
  pattern.endsWith('*') ? check.startsWith(pattern.slice(0, -1)) : check === pattern;
