import { startJobWorker } from '../src/app/job-worker.ts';
import { runProcess } from '../src/app/run-process.ts';

await runProcess(
  'deliveries',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps, ['delivery']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
