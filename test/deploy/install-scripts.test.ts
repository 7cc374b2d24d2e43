import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { ROOT } from './compose-file.ts';

const packageSchema = z.object({ allowScripts: z.record(z.string(), z.boolean()) });
const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ hasInstallScript: z.boolean().optional() })),
});

const read = (name: string): unknown => JSON.parse(readFileSync(path.join(ROOT, name), 'utf8'));

it('npm ci runs the install script of Node alone, and each other one is refused by name', () => {
  const { packages } = lockSchema.parse(read('package-lock.json'));
  const withScript = Object.entries(packages).flatMap(([folder, { hasInstallScript }]) =>
    hasInstallScript === true ? [folder.replace(/^.*node_modules\//, '')] : [],
  );
  const { allowScripts } = packageSchema.parse(read('package.json'));
  expect(Object.keys(allowScripts).toSorted()).toEqual([...new Set(withScript)].toSorted());
  expect(Object.entries(allowScripts).filter(([, isAllowed]) => isAllowed)).toEqual([['node', true]]);
});
