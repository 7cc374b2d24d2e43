import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ROOT_FOLDER } from '../../platform/root-folder.ts';

/** The published package and the image have these files here; a clone has the package that they come from. */
const BUILT = path.join(ROOT_FOLDER, 'dist/swagger-ui');

const require = createRequire(import.meta.url);

const packageFolder = (): string => path.dirname(require.resolve('@fastify/swagger-ui/package.json'));

export const swaggerFile = (name: 'swagger-ui.css' | 'swagger-ui-bundle.js'): Promise<Uint8Array<ArrayBuffer>> =>
  readFile(path.join(BUILT, name)).catch(() => readFile(path.join(packageFolder(), 'static', name)));
