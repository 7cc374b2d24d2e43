import { HELP } from '../demo/options.ts';
import { runDemo } from '../demo/run-demo.ts';

export const usage = HELP;

export const run = (args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> =>
  runDemo(args, environment);
