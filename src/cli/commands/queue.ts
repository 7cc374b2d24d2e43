import type { BatonClient, Queue } from '../../client/client.ts';
import { EXIT } from '../exit-codes.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { showWaiting } from '../show-waiting.ts';

export const usage = `baton queue [options] SESSION
baton queue [options] SESSION edit MESSAGE "new text"
baton queue [options] SESSION remove MESSAGE
baton queue [options] SESSION clear

Lists the messages that wait to be taken up, changes one, removes one or all.

${REMOTE_USAGE}`;

const ACTIONS = ['list', 'edit', 'remove', 'clear'] as const;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const [first = '', action = 'list', ...rest] = positionals;
  const { session } = takeArguments([first], 'session');
  const queue = await change(client, session, oneOf('the action', ACTIONS, action), rest);
  if (isJson) writeJson(queue);
  else if (queue.messages.length === 0) writeLine('Nothing waits.');
  else for (const line of showWaiting(queue.messages)) writeLine(line);
  return EXIT.done;
}

/** What waits afterwards. */
async function change(
  client: BatonClient,
  session: string,
  action: (typeof ACTIONS)[number],
  rest: readonly string[],
): Promise<Queue> {
  switch (action) {
    case 'edit': {
      const { message, text } = takeArguments(rest, 'message', 'text');
      return client.queue.change(session, message, { content: text });
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
  return client.queue.list(session);
}
