import { parseArgs } from 'node:util';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { runProcess } from '../../service/run-process.ts';
import { startWorkers } from '../../service/step-processes.ts';
import { buildConsole } from '../build-console.ts';
import { makeSampleWorkspace } from '../demo/sample-workspace.ts';
import { simulateWithoutModel } from '../simulate-without-model.ts';
import { WAYS_TO_A_MODEL } from '../ways-to-a-model.ts';

export const usage = `baton dev   (npm start)

Runs API and workers in one process, on an embedded Postgres and a simulated model where nothing else is set. Settings
come from the environment.`;

export async function run(args: readonly string[], processEnvironment: NodeJS.ProcessEnv): Promise<number> {
  parseArgs({ args: [...args] });
  await using stack = new AsyncDisposableStack();
  const environment = await simulateWithoutModel(processEnvironment, stack);
  if (environment !== processEnvironment)
    console.error(`A simulated model answers; for a real one set ${WAYS_TO_A_MODEL}.`);
  const sample = await makeSampleWorkspace(environment);
  if (sample !== null) console.error(`The agents work in ${sample}/, which is new: it has a small sample project.`);
  const built = buildConsole().catch((error: unknown) => error);
  await runProcess(
    'all',
    async (composition) => {
      await startWorkers(composition, environment);
      const { url } = await composition.baton.listen();
      const failure = await built;
      if (failure instanceof Error) console.error(`The console could not be built: ${failure.message}`);
      console.error(`Baton answers at ${url}. Console: ${url}/console/. Documentation: ${url}/docs. Ctrl-C ends it.`);
      return url;
    },
    { migrate: true, jobKinds: 4, serves: true, environment },
  );
  return 0;
}
