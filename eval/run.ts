import { run } from './replay.ts';

process.exitCode = await run(process.argv.slice(2), process.env);
