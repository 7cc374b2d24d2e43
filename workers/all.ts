import { startApi } from '../src/app/api-server.ts';
import { startJobWorker } from '../src/app/job-worker.ts';
import { runProcess } from '../src/app/run-process.ts';

await runProcess(
  'all',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps));
    return stack.use(await startApi(deps)).url;
  },
  { migrate: true, jobKinds: 3 },
);
