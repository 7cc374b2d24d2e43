import { startApi } from '../../runtime/api-server.ts';
import { startJobWorker } from '../../runtime/job-worker.ts';
import { runProcess } from '../../runtime/run-process.ts';
import { simulateWithoutKey } from '../simulate-without-key.ts';

export const usage = `baton dev   (npm start)

API and workers in one process, on an embedded Postgres and a simulated model where nothing else is set: settings come
from the environment.`;

export async function run(_args: readonly string[], given: NodeJS.ProcessEnv): Promise<number> {
  await using stack = new AsyncDisposableStack();
  const environment = await simulateWithoutKey(given, stack);
  if (environment !== given) console.error('No OPENAI_API_KEY: a simulated model answers.');
  await runProcess(
    'all',
    async (deps, parts) => {
      parts.use(await startJobWorker(deps));
      const { url } = parts.use(await startApi(deps));
      console.error(`Baton answers at ${url} (documentation: ${url}/docs). Ctrl-C ends it.`);
      return url;
    },
    { migrate: true, jobKinds: 3, environment },
  );
  return 0;
}
