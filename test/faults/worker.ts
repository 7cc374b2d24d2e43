// A worker process that works on every kind of job: the suite's processes are few, each of them
// has to be worth killing.
import { runProcess } from '../../src/service/run-process.ts';

await runProcess(
  'worker',
  async ({ baton }) => {
    await baton.startWorker();
    return undefined;
  },
  { migrate: false, jobKinds: 4 },
);
