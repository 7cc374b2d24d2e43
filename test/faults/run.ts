// npm run faults: harms the product in every way that it must survive, and reports the findings.
import { runBroken } from './breakages.ts';
import { parseArguments } from './options.ts';
import { runSuite } from './suite.ts';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const { broken, ...options } = parseArguments(process.argv.slice(2));
const isWell =
  broken === undefined ? await runSuite(options, interrupted.signal, print) : await runBroken(broken, options, print);
process.exitCode = isWell ? 0 : 1;
