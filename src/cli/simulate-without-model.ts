import type { Config } from '../platform/config.ts';
import type { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { loadSimulator } from './load-simulator.ts';
import { validConfig } from './valid-config.ts';

/** Pause between two streamed pieces of a simulated answer: short enough to wait for, long enough to watch. */
const CHUNK_DELAY_MS = 20;

/**
 * Adds a simulated provider to an environment without providers and without a real model, so that everything else can
 * be tried. Invalid environments stay as they are. Only the command line does this: the processes in workers/ know no
 * simulator.
 * @throws BatonError `config_invalid` without the package of the simulator's tokenizer
 */
export async function simulateWithoutModel(
  environment: NodeJS.ProcessEnv,
  stack: AsyncDisposableStack,
): Promise<NodeJS.ProcessEnv> {
  const config = validConfig(environment);
  if (config === null || meansRealModel(config)) return environment;
  const { startSimulator, agentScript } = await loadSimulator();
  const simulator = stack.use(await startSimulator({ chunkDelayMs: CHUNK_DELAY_MS, chunkChars: 12 }));
  simulator.script('*', agentScript);
  return { ...environment, BATON_MODEL: config.model ?? 'simulated/workspace', BATON_SIMULATOR_URL: simulator.url };
}

function meansRealModel({ openaiApiKey, anthropicApiKey, providersFile, simulatorUrl, model }: Config): boolean {
  const isConfigured = [openaiApiKey, anthropicApiKey, providersFile, simulatorUrl].some((set) => set !== undefined);
  return isConfigured || (model !== undefined && !model.startsWith('simulated'));
}
