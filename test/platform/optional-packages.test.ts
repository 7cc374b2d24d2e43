import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { checkInstalled, loadOptional } from '../../src/platform/optional-packages.ts';

const NEED = { purpose: 'birds', packages: ['feathers-of-birds', 'zod'] };

/** As Node says it. */
const missing = (name: string) => new Error(`Cannot find package '${name}' imported from /place/file.js`);

it('a package that is missing is asked for by name, and every other failure stays what it is', async () => {
  const load = (error: Error) => loadOptional(NEED, () => Promise.reject(error));
  const cause = missing('feathers-of-birds');
  await expect(load(cause)).rejects.toMatchObject({
    code: 'config_invalid',
    message: 'birds need a package: npm install feathers-of-birds zod',
    cause,
  });
  await expect(load(missing('another'))).rejects.toThrow("Cannot find package 'another'");
  await expect(load(new Error('broken'))).rejects.toThrow('broken');
  expect(await loadOptional(NEED, async () => 'loaded')).toBe('loaded');
});

it('a package that is missing is found at the start, with the key that needs it', () => {
  expect(() => checkInstalled(NEED, 'tools.0')).toThrow(
    'tools.0: birds need a package: npm install feathers-of-birds zod',
  );
  // These have no main file, or hide their manifest.
  checkInstalled({ purpose: 'clients', packages: ['@modelcontextprotocol/sdk', 'gpt-tokenizer'] }, 'tools.0');
});

it('npm leaves out an optional package whose engines refuse the Node of npm, which in a clone may be 20: there is none', () => {
  const { packages } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package-lock.json'), 'utf8'));
  for (const name of Object.keys(packages[''].optionalDependencies)) {
    const { engines = {} } = packages[`node_modules/${name}`];
    expect(engines.node ?? '>=18', name).toMatch(/(?:^|\|\| *)(?:>= ?(?:1\d|20)\b|\^20\b)/);
  }
});
