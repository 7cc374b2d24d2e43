import { expect, it } from 'vitest';
import { runNode } from '../deploy/process.ts';

/** Prints the URL of each module that is loaded. */
const PRINT_LOADED = `
  import { registerHooks } from 'node:module';
  registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) });
`;

it('a worker process loads nothing of the API, so that it starts sooner', async () => {
  const program = `${PRINT_LOADED} await import('./src/service/run-process.ts'); await import('./src/service/step-processes.ts');`;
  await using loading = runNode(['--input-type=module', '--eval', program], { cwd: process.cwd() });
  const { code, output } = await loading.ended;
  expect(code).toBe(0);
  const loaded = output.split('\n');
  expect(loaded.some((url) => url.endsWith('/src/step/run-step.ts'))).toBe(true);
  expect(
    loaded.filter((url) => /\/src\/(http|facades)\/|\/node_modules\/(@hono|hono|@bull-board)\//.test(url)),
  ).toEqual([]);
});
