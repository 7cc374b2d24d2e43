import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { ROOT } from '../support/pasted.ts';

/** Pages that a program writes. */
export const GENERATED: readonly string[] = ['docs/api.md', 'docs/events.md', 'docs/settings.md'];

/** The pages that newcomers read, by their paths: those at the root but the changelog, and all of docs/. */
export async function pageNames(): Promise<string[]> {
  const root = (await readdir(ROOT)).filter((name) => name !== 'CHANGELOG.md');
  const docs = (await readdir(path.join(ROOT, 'docs'), { recursive: true })).map((name) => `docs/${name}`);
  return [...root, ...docs].filter((name) => name.endsWith('.md')).toSorted();
}
