// npm run faults: harms the product in every way it must survive, and says what is left of it.
import { parseArguments } from './options.ts';
import { runSuite } from './suite.ts';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());

const options = parseArguments(process.argv.slice(2));
process.exitCode = (await runSuite(options, interrupted.signal, (line) => process.stdout.write(`${line}\n`))) ? 0 : 1;
