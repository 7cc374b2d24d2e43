import { startSimulator } from '../simulator/server.ts';
import { workspaceScript } from '../simulator/workspace-script.ts';

/** Pause between two streamed pieces of a simulated answer: fast enough to wait for, slow enough to watch. */
const CHUNK_DELAY_MS = 20;

/**
 * The environment as it is where a model is configured; otherwise one in which a simulated provider stands in for it, so
 * that everything else can be tried. Only the command line does that: the processes in workers/ know no simulator.
 */
export async function simulateWithoutKey(
  environment: NodeJS.ProcessEnv,
  stack: AsyncDisposableStack,
): Promise<NodeJS.ProcessEnv> {
  if (environment['OPENAI_API_KEY'] || environment['BATON_SIMULATOR_URL']) return environment;
  const simulator = stack.use(await startSimulator({ chunkDelayMs: CHUNK_DELAY_MS, chunkChars: 12 }));
  simulator.script('*', workspaceScript);
  return { BATON_MODEL: 'simulated/workspace', ...environment, BATON_SIMULATOR_URL: simulator.url };
}
