import { parseArgs } from 'node:util';
import { agentScript } from '../../../simulator/lead-script.ts';
import { startSimulator } from '../../../simulator/server.ts';
import { UsageError } from '../exit-codes.ts';
import { wholeNumber } from '../remote.ts';

export const usage = `baton simulator [--port 4401] [--window TOKENS]   (npm run simulator -- …)

A simulated OpenAI-compatible provider, until Ctrl-C.`;

export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { port: { type: 'string', default: '4401' }, window: { type: 'string' } },
  });
  const port = readPort(values.port);
  const contextWindow = wholeNumber('--window', values.window);
  await using simulator = await startSimulator({ port, ...(contextWindow !== undefined && { contextWindow }) });
  simulator.script('*', agentScript);
  console.log(`The simulated provider answers at ${simulator.url}/v1 (set BATON_SIMULATOR_URL=${simulator.url}).`);
  await new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  return 0;
}

/** 0: any free port. */
function readPort(given: string): number {
  if (/^\d{1,5}$/.test(given) && Number(given) <= 65_535) return Number(given);
  throw new UsageError(`--port takes a whole number from 0 to 65535, not ${given}.`);
}
