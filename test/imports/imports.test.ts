import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkImports } from './check-imports.ts';
import { FLOORS } from './floors.ts';

const ROOT = path.join(import.meta.dirname, '../..');

let copy: string;
beforeAll(async () => {
  copy = await mkdtemp(path.join(tmpdir(), 'imports-test-'));
  for (const folder of ['src/domain', 'src/platform', 'src/client']) {
    await cp(path.join(ROOT, folder), path.join(copy, folder), { recursive: true });
  }
});
afterAll(() => rm(copy, { recursive: true }));

/** The violations of the copy while one of its files begins with other code. */
async function withCode(file: string, code: string): Promise<readonly string[]> {
  const before = await readFile(path.join(copy, file), 'utf8');
  await writeFile(path.join(copy, file), `${code}\n${before}`);
  const violations = checkImports(copy);
  await writeFile(path.join(copy, file), before);
  return violations;
}

describe('imports between folders', () => {
  it('keep to their floors', () => {
    expect(checkImports(copy)).toEqual([]);
  });

  it.each([
    ['src/platform/within.ts', `import '../store/database.ts';`, /^src\/platform\/within\.ts imports src\/store\//],
    ['src/platform/within.ts', `import type { A } from '../app/dependencies.ts';`, /imports src\/app\//],
    ['src/platform/within.ts', `export * from '../http/server.ts';`, /imports src\/http\//],
    ['src/platform/within.ts', `await import('../http/server.ts');`, /imports src\/http\//],
    ['src/domain/ids.ts', `import './run/run.ts';`, /^src\/domain\/ids\.ts imports src\/domain\/run\//],
    ['src/domain/ids.ts', `import 'node:fs';`, /imports node:fs: of libraries it may import zod/],
    ['src/client/retry.ts', `import 'zod';`, /imports zod: of libraries it may import none/],
  ])('are refused where they climb: %s with %s', async (file, code, sentence) => {
    expect(await withCode(file, code)).toEqual([expect.stringMatching(sentence)]);
  });

  it('are refused where files import each other', async () => {
    await writeFile(path.join(copy, 'src/domain/truncate-again.ts'), `import './truncate.ts';`);
    expect(await withCode('src/domain/truncate.ts', `import './truncate-again.ts';`)).toEqual([
      'these files import each other: src/domain/truncate-again.ts, src/domain/truncate.ts',
    ]);
  });

  it('name no folder above their own row', () => {
    const order = Object.keys(FLOORS);
    for (const [index, row] of Object.values(FLOORS).entries()) {
      for (const folder of row) expect(order.indexOf(folder.replace('/*', ''))).toBeLessThan(index);
    }
  });
});
