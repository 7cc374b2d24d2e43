import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';

const ROOT = path.join(import.meta.dirname, '../..');
const ASSETS = path.join(ROOT, 'dist/console/assets');
const MAX_GZIP_BYTES = 300_000;

const read = (file: string): string => readFileSync(path.join(ASSETS, file), 'utf8');
const found = (code: string, pattern: RegExp): string[] => [...code.matchAll(pattern)].map(([, file = '']) => file);

/** The scripts that a browser has to have before it runs these. */
function withImports(files: readonly string[]): ReadonlySet<string> {
  const needed = new Set(files);
  for (const file of needed) {
    for (const other of found(read(file), /(?:from|import)\s*["'`]\.\/([\w-]+\.js)["'`]/g)) needed.add(other);
  }
  return needed;
}

describe('the files of the console', () => {
  beforeAll(() => promisify(execFile)(process.execPath, ['src/cli/build-console.ts'], { cwd: ROOT }));

  it('are small before each page is of use', () => {
    const page = readFileSync(path.join(ASSETS, '../index.html'), 'utf8');
    const first = found(page, /assets\/([\w-]+\.js)/g);
    const styles = readdirSync(ASSETS).filter((file) => file.endsWith('.css'));
    const pages = first.flatMap((file) => found(read(file), /import\(\s*["'`]\.\/([\w-]+\.js)["'`]\s*\)/g));
    expect(pages.length).toBeGreaterThan(8);
    for (const file of pages) {
      const sizes = [...withImports([...first, file]), ...styles].map((one) => gzipSync(read(one)).length);
      expect(
        sizes.reduce((sum, size) => sum + size, 0),
        file,
      ).toBeLessThanOrEqual(MAX_GZIP_BYTES);
    }
  });
});
