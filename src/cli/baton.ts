import { runCommandLine } from './command-line.ts';

// The command `baton`. Processes of the service set their exit code themselves.
const exitCode = await runCommandLine(process.argv.slice(2), process.env);
if (exitCode !== 0) process.exitCode = exitCode;
