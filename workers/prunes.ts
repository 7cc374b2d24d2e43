import { runProcess } from '../src/service/run-process.ts';

await runProcess(
  'prunes',
  async ({ baton }) => {
    await baton.startWorker({ kinds: ['prune'] });
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
