import { runProcess } from '../src/service/run-process.ts';

await runProcess(
  'compactions',
  async ({ baton }) => {
    await baton.startWorker({ kinds: ['compaction'] });
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
