import { startApi } from '../src/runtime/api-server.ts';
import { startJobWorker } from '../src/runtime/job-worker.ts';
import { runProcess } from '../src/runtime/run-process.ts';

await runProcess(
  'all',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps));
    return stack.use(await startApi(deps)).url;
  },
  { migrate: true, jobKinds: 3 },
);
