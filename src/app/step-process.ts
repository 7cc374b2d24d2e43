// A further process that takes steps, started by startWorkers.
import { startJobWorker } from './job-worker.ts';
import { connectToParent } from './parent-process.ts';
import { runProcess } from './run-process.ts';

await runProcess(
  'steps',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['step']));
    return undefined;
  },
  { migrate: false, jobKinds: 1, parent: connectToParent() },
);
