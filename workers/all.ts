import { runProcess } from '../src/service/run-process.ts';
import { startWorkers } from '../src/service/step-processes.ts';

await runProcess(
  'all',
  async (composition) => {
    await startWorkers(composition, process.env);
    return (await composition.baton.listen()).url;
  },
  { migrate: true, jobKinds: 4, serves: true },
);
