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
  checkInstalled(
    { purpose: 'clients', packages: ['@modelcontextprotocol/sdk', 'gpt-tokenizer', '@ai-sdk/otel'] },
    'tools.0',
  );
});
