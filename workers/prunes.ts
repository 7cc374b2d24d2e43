import { startJobWorker } from '../src/app/job-worker.ts';
import { runProcess } from '../src/app/run-process.ts';

await runProcess(
  'prunes',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['prune']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
