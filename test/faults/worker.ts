// A worker process that works on every kind of job: the suite's processes are few, each of them
// has to be worth killing.
import { startJobWorker } from '../../src/app/job-worker.ts';
import { runProcess } from '../../src/app/run-process.ts';

await runProcess(
  'worker',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps));
    return undefined;
  },
  { migrate: false, jobKinds: 4 },
);
