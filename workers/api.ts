import { startApi } from '../src/app/api-server.ts';
import { runProcess } from '../src/app/run-process.ts';

await runProcess('api', async (deps, stack) => stack.use(await startApi(deps)).url, { migrate: false, jobKinds: 0 });
