import { runProcess } from '../src/service/run-process.ts';

await runProcess(
  'deliveries',
  async ({ baton }) => {
    await baton.startWorker({ kinds: ['delivery'] });
    return undefined;
  },
  { migrate: false, jobKinds: 1 },
);
