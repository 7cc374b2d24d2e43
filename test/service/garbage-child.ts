// A child process for tests: garbage-child.ts <metrics as JSON>. Without metrics, reading them fails.
import { connectToParent } from '../../src/service/parent-process.ts';

connectToParent().tellMetrics(async () => JSON.parse(process.argv[2] ?? ''));
// What a module in code may keep open.
setInterval(() => undefined, 1_000);
process.send?.('started');
