import type { BatonClient } from '../../client/client.ts';
import { EXIT } from '../exit-codes.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { readQueue, showWaiting } from '../show-waiting.ts';

export const usage = `baton queue [options] SESSION
baton queue [options] SESSION edit MESSAGE "new text"
baton queue [options] SESSION remove MESSAGE
baton queue [options] SESSION clear

Lists the queued messages of a session, changes one, removes one or all.

${REMOTE_USAGE}`;

const ACTIONS = ['list', 'edit', 'remove', 'clear'] as const;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const [first = '', action = 'list', ...rest] = positionals;
  const { session } = takeArguments([first], 'session');
  await change(client, session, oneOf('the action', ACTIONS, action), rest);
  const messages = await readQueue(client, session);
  if (isJson) writeJson({ messages });
  else if (messages.length === 0) writeLine('Nothing waits.');
  else for (const line of showWaiting(messages)) writeLine(line);
  return EXIT.done;
}

async function change(
  client: BatonClient,
  session: string,
  action: (typeof ACTIONS)[number],
  rest: readonly string[],
): Promise<void> {
  switch (action) {
    case 'edit': {
      const { message, text } = takeArguments(rest, 'message', 'text');
      await client.queue.change(session, message, { content: text });
      break;
    }
    case 'remove': {
      await client.queue.remove(session, takeArguments(rest, 'message').message);
      break;
    }
    case 'clear': {
      takeArguments(rest);
      await client.queue.clear(session);
      break;
    }
    case 'list':
      takeArguments(rest);
  }
}
