import { deliver, MESSAGE_OPTIONS, MESSAGE_USAGE, readSendOptions } from '../deliver.ts';
import { REMOTE_USAGE, readRemote, takeArguments } from '../remote.ts';

export const usage = `baton send [options] SESSION "message"

Sends a message to a session. A session at work reads the message at its next step, unless --delivery says otherwise.

${MESSAGE_USAGE}
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, MESSAGE_OPTIONS);
  const { session: sessionId, message: text } = takeArguments(positionals, 'session', 'message');
  const options = readSendOptions(values);
  return deliver(client, { sessionId, text, options, isJson, isFollowed: values.follow });
}
