import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { count } from '../terminal/words.ts';

export const usage = `baton unrevert [options] SESSION

Undoes the last revert of a session, as long as no message has been sent since.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const { session } = takeArguments(positionals, 'session');
  const restored = await client.sessions.unrevert(session);
  if (isJson) writeJson(restored);
  else writeLine(`${count(restored.messages, 'message')} brought back`);
  return EXIT.done;
}
