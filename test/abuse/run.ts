// npm run abuse: attacks the service and measures another tenant's requests during each attack.
import { parseArguments } from './options.ts';
import { runSuite } from './suite.ts';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const options = parseArguments(process.argv.slice(2));
const isWell = await runSuite(options, interrupted.signal, print);
process.exitCode = interrupted.signal.aborted ? 130 : isWell ? 0 : 1;
