import { runDemo } from './demo/run-demo.ts';

// `npm run demo`: everything in one process, a task through the HTTP API, progress a person can follow.
process.exitCode = await runDemo(process.argv.slice(2), process.env);
