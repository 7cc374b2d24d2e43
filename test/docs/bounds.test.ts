import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as tunables from '../../src/domain/tunables.ts';
import { VARIABLES } from '../../src/platform/settings.ts';

test('the table of what a process holds names only bounds that there are', () => {
  const page = readFileSync(new URL('../../docs/security.md', import.meta.url), 'utf8');
  const [, section = ''] = /\n## What a caller can make a process hold\n([\s\S]*?)\n## /.exec(page) ?? [];
  const named = [...section.matchAll(/`([A-Z][A-Z_]{4,}[A-Z])`/g)].flatMap(([, name]) => name ?? []);
  const known: ReadonlySet<string> = new Set([...Object.keys(tunables), ...Object.values(VARIABLES)]);
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});
