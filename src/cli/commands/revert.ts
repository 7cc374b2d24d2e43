import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { count } from '../terminal/words.ts';

export const usage = `baton revert [options] SESSION MESSAGE

Removes everything after a message from a session. "baton unrevert SESSION" undoes it, until a message is sent. Effects
of tools stay.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const { session, message } = takeArguments(positionals, 'session', 'message');
  const reverted = await client.sessions.revert(session, message);
  if (isJson) writeJson(reverted);
  else writeLine(`${count(reverted.messages, 'message')} taken out`);
  return EXIT.done;
}
