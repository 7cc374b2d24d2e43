import type { BatonClient } from '../../client/client.ts';
import { deliver, MESSAGE_OPTIONS, MESSAGE_USAGE, readSendOptions } from '../deliver.ts';
import { UsageError } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments } from '../remote.ts';

export const usage = `baton submit [options] "task"

Gives an agent a task in a new session. Other commands accept key:KEY in place of the session's id.

  --agent NAME      name of the agent (default: the default agent of the service)
  --title TEXT      title of the session
  --key KEY         your own name for the session; an existing session with the name gets the task
${MESSAGE_USAGE}
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    ...MESSAGE_OPTIONS,
    agent: { type: 'string' },
    title: { type: 'string' },
    key: { type: 'string' },
  });
  const { task } = takeArguments(positionals, 'task');
  const options = readSendOptions(values);
  const { title, key } = values;
  const agent = values.agent ?? (await defaultAgent(client));
  const session = await client.sessions.create({
    agent,
    ...(title !== undefined && { title }),
    ...(key !== undefined && { key }),
  });
  return deliver(client, { sessionId: session.id, text: task, options, isJson, isFollowed: values.follow });
}

/** @throws UsageError if the service has none */
async function defaultAgent(client: BatonClient): Promise<string> {
  const { agents } = await client.agents();
  const found = agents.find(({ isDefault }) => isDefault);
  if (found !== undefined) return found.name;
  if (agents.length === 0) throw new UsageError('The service has no agents.');
  throw new UsageError(`--agent is missing: one of ${agents.map(({ name }) => name).join(', ')}.`);
}
