import { startJobWorker } from '../src/runtime/job-worker.ts';
import { runProcess } from '../src/runtime/run-process.ts';

await runProcess(
  'steps',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['step']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
