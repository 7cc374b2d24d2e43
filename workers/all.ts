import { startApi } from '../src/app/api-server.ts';
import { runProcess } from '../src/app/run-process.ts';
import { startWorkers } from '../src/app/workers.ts';

await runProcess(
  'all',
  async (deps, stack) => {
    stack.use(await startWorkers(deps, process.env));
    return stack.use(await startApi(deps)).url;
  },
  { migrate: true, jobKinds: 4 },
);
