import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);
const folder = path.dirname(require.resolve('swagger-ui-dist/package.json'));

export const swaggerFile = (name: 'swagger-ui.css' | 'swagger-ui-bundle.js'): Promise<Uint8Array<ArrayBuffer>> =>
  readFile(path.join(folder, name));
