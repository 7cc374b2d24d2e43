// A further process that takes steps, started by startWorkers.
import { connectToParent } from './parent-process.ts';
import { runProcess } from './run-process.ts';

await runProcess(
  'steps',
  async ({ baton }) => {
    await baton.startWorker({ kinds: ['step'] });
    return undefined;
  },
  { migrate: false, jobKinds: 1, parent: connectToParent() },
);
