import { startApi } from '../src/runtime/api-server.ts';
import { runProcess } from '../src/runtime/run-process.ts';

await runProcess('api', async (deps, stack) => stack.use(await startApi(deps)).url, { migrate: false, jobKinds: 0 });
