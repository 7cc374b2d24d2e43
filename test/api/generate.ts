import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ROOT } from '../support/pasted.ts';
import { generatedFiles } from './generated.ts';

for (const [file, text] of await generatedFiles()) {
  await writeFile(path.join(ROOT, file), text);
  process.stdout.write(`Wrote ${file}\n`);
}
// The app that the document was read from keeps the process alive.
process.exit(0);
