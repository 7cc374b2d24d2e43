import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { ROOT } from './pasted.ts';

/** A generated file as Biome formats it, so that it is the same whoever saves it. @param file its path in the repository */
export function formatted(file: string, text: string): string {
  const biome = path.join(ROOT, 'node_modules/.bin/biome');
  return execFileSync(biome, ['format', `--stdin-file-path=${file}`], { cwd: ROOT, input: text, encoding: 'utf8' });
}
