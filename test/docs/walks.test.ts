import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT, readPage } from '../support/pasted.ts';

/** The files of each leg of the walks in ARCHITECTURE.md, in their order. */
async function legs(): Promise<readonly (readonly string[])[]> {
  const [, walks = ''] = (await readPage('ARCHITECTURE.md')).split('\n## Three walks\n');
  const cells = [...walks.matchAll(/^\| [^|]+ \| (`src\/.*) \|$/gm)].flatMap(([, cell = '']) => cell.split(';'));
  return cells.map((cell) => [...cell.matchAll(/`(src\/[^`]+)`/g)].map(([, file = '']) => file));
}

/** The files of the product that a file imports. */
async function importsOf(file: string): Promise<string[]> {
  const text = await readFile(path.join(ROOT, file), 'utf8');
  return [...text.matchAll(/ from '(\.[^']+)'/g)].map(([, name = '']) => path.join(path.dirname(file), name));
}

describe('the walks of ARCHITECTURE.md', () => {
  it('go from file to file by imports, and never back', async () => {
    const walked = await legs();
    expect(walked.length).toBeGreaterThan(11);
    for (const leg of walked) {
      const imported = await Promise.all(leg.map(importsOf));
      for (const [index, file] of leg.entries()) {
        const before = leg.slice(0, index);
        if (index > 0) expect(imported.slice(0, index).flat(), `who imports ${file}?`).toContain(file);
        expect(
          before.filter((each) => imported[index]?.includes(each)),
          `${file} goes back`,
        ).toEqual([]);
      }
    }
  });
});
