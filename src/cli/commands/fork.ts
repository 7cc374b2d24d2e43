import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';

export const usage = `baton fork [options] SESSION

Makes a new session from the transcript of SESSION, which stays as it is.

  --at MESSAGE      the last message to copy (default: the last finished one)
  --title TEXT      title of the new session (default: the title of SESSION)
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    at: { type: 'string' },
    title: { type: 'string' },
  });
  const { session } = takeArguments(positionals, 'session');
  const fork = await client.sessions.fork(session, { atMessage: values.at, title: values.title });
  if (isJson) writeJson(fork);
  else writeLine(`session    ${fork.id}`);
  return EXIT.done;
}
