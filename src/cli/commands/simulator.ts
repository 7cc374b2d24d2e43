import { parseArgs } from 'node:util';
import { startSimulator } from '../../simulator/server.ts';
import { workspaceScript } from '../../simulator/workspace-script.ts';

export const usage = `baton simulator [--port 4401] [--window TOKENS]   (npm run simulator -- …)

A simulated OpenAI-compatible provider, until Ctrl-C.`;

export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { port: { type: 'string', default: '4401' }, window: { type: 'string' } },
  });
  await using simulator = await startSimulator({
    port: Number(values.port),
    ...(values.window === undefined ? {} : { contextWindow: Number(values.window) }),
  });
  simulator.script('*', workspaceScript);
  console.log(`The simulated provider answers at ${simulator.url}/v1 (set BATON_SIMULATOR_URL=${simulator.url}).`);
  await new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  return 0;
}
