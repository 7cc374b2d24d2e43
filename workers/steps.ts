import { runProcess } from '../src/app/run-process.ts';
import { startWorkers } from '../src/app/workers.ts';

await runProcess(
  'steps',
  async (deps, stack) => {
    stack.use(await startWorkers(deps, process.env, ['step']));
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
