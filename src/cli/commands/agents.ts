import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { oneLine } from '../terminal/words.ts';

export const usage = `baton agents [options]

Lists the agents of the service.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  takeArguments(positionals);
  const { agents } = await client.agents();
  if (isJson) writeJson({ agents });
  else if (agents.length === 0) writeLine('There are no agents.');
  for (const { name, model, description } of isJson ? [] : agents) {
    writeLine([name.padEnd(20), model.padEnd(30), oneLine(description ?? '', 80)].join('  ').trimEnd());
  }
  return 0;
}
