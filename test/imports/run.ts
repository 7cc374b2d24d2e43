import path from 'node:path';
import { checkImports } from './check-imports.ts';

// Part of `npm run lint`.
const violations = checkImports(path.join(import.meta.dirname, '../..'));
for (const violation of violations) process.stderr.write(`${violation}\n`);
if (violations.length > 0) process.exitCode = 1;
