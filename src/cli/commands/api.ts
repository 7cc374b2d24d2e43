import { parseArgs } from 'node:util';
import { runProcess } from '../../service/run-process.ts';

export const usage = `baton api

Serves the HTTP API, as workers/api.ts does. Settings come from the environment.`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  parseArgs({ args: [...args] });
  const options = { migrate: false, jobKinds: 0, serves: true, environment };
  await runProcess('api', async ({ baton }) => (await baton.listen()).url, options);
  return 0;
}
