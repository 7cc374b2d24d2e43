import { parseArgs } from 'node:util';
import { PROFILE_NAMES, type ProfileName } from '../../../simulator/profiles.ts';
import { UsageError } from '../exit-codes.ts';
import { loadSimulator } from '../load-simulator.ts';
import { wholeNumber } from '../remote.ts';

export const usage = `baton simulator [--port 4401] [--window TOKENS] [--profile NAME]   (npm run simulator -- …)

Runs a simulated OpenAI-compatible provider, until Ctrl-C.
Profiles refuse what other endpoints refuse: ${PROFILE_NAMES.join(', ')}.`;

export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { port: { type: 'string', default: '4401' }, window: { type: 'string' }, profile: { type: 'string' } },
  });
  const port = readPort(values.port);
  const contextWindow = wholeNumber('--window', values.window);
  const profile = readProfile(values.profile);
  const { startSimulator, agentScript } = await loadSimulator();
  await using simulator = await startSimulator({ port, ...(contextWindow !== undefined && { contextWindow }) });
  simulator.script('*', agentScript);
  simulator.setProfile('*', profile);
  console.log(`The simulated provider answers at ${simulator.url}/v1 (set BATON_SIMULATOR_URL=${simulator.url}).`);
  await new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
  return 0;
}

function readProfile(profileText: string | undefined): ProfileName | undefined {
  const profile = PROFILE_NAMES.find((name) => name === profileText);
  if (profileText === undefined || profile !== undefined) return profile;
  throw new UsageError(`--profile takes one of ${PROFILE_NAMES.join(', ')}, not ${profileText}.`);
}

/** 0: any free port. */
function readPort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new UsageError(`--port takes a whole number from 0 to 65535, not ${text}.`);
}
