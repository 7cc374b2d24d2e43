import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { ROOT } from '../support/pasted.ts';
import { generatedFiles } from './generated.ts';

const files = await generatedFiles();

it.each([...files])('%s is what `npm run generate` makes', async (file, text) => {
  expect(await readFile(path.join(ROOT, file), 'utf8')).toBe(text);
});
