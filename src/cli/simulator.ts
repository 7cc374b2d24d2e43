import { parseArgs } from 'node:util';
import { startSimulator } from '../simulator/server.ts';
import { workspaceScript } from '../simulator/workspace-script.ts';

const { values } = parseArgs({
  options: { port: { type: 'string', default: '4401' }, window: { type: 'string' }, help: { type: 'boolean' } },
});
if (values.help === true) {
  console.log('npm run simulator -- [--port 4401] [--window TOKENS]   a simulated OpenAI-compatible provider');
} else {
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
}
