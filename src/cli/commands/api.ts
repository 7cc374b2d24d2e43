import { startApi } from '../../runtime/api-server.ts';
import { runProcess } from '../../runtime/run-process.ts';

export const usage = `baton api

The HTTP API, as workers/api.ts runs it: settings come from the environment.`;

export async function run(): Promise<number> {
  await runProcess('api', async (deps, stack) => stack.use(await startApi(deps)).url, { migrate: false, jobKinds: 0 });
  return 0;
}
