import { runProcess } from '../src/service/run-process.ts';

await runProcess('api', async ({ baton }) => (await baton.listen()).url, { migrate: false, jobKinds: 0, serves: true });
