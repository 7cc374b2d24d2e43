import { runProcess } from '../src/service/run-process.ts';
import { startWorkers } from '../src/service/step-processes.ts';

await runProcess(
  'steps',
  async (composition) => {
    await startWorkers(composition, process.env, ['step']);
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
