import { startJobWorker } from '../src/app/job-worker.ts';
import { runProcess } from '../src/app/run-process.ts';

await runProcess(
  'steps',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['step']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
