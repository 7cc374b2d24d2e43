import { startJobWorker } from '../src/runtime/job-worker.ts';
import { runProcess } from '../src/runtime/run-process.ts';

await runProcess(
  'prunes',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['prune']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
