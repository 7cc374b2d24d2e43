import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Node's compile cache: with it a child process starts in two thirds of the time. */
const COMPILED = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));

/** The environment of a child process: these variables, and those of this process that it needs to start. */
export function childEnvironment(environment: Readonly<Record<string, string>>): Record<string, string | undefined> {
  const { PATH, HOME } = process.env;
  // Each service runs as one process, because a test that kills a worker must know all its processes.
  return { PATH, HOME, NODE_COMPILE_CACHE: COMPILED, BATON_PROCESSES: '1', ...environment };
}

/**
 * Compiles the modules of an API or a worker once, because a killed process does not write its compile cache.
 * @throws if a module is not at the path named here
 */
export function compileProduct(): void {
  const modules = ['library/baton.ts', 'service/run-process.ts', 'service/step-processes.ts'];
  const imports = modules.map((file) => `await import(${JSON.stringify(import.meta.resolve(`../../src/${file}`))});`);
  const program = ['--input-type=module', '--eval', `${imports.join('')}process.exit(0)`];
  const { status, stderr } = spawnSync(process.execPath, program, { env: childEnvironment({}) });
  if (status !== 0) throw new Error(`the product cannot be compiled: ${stderr}`);
}
