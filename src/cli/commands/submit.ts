import type { BatonClient } from '../../client/client.ts';
import { deliver, MESSAGE_OPTIONS, MESSAGE_USAGE, readSendOptions } from '../deliver.ts';
import { UsageError } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments } from '../remote.ts';

export const usage = `baton submit [options] "task"

Gives an agent a task in a new session.

  --agent NAME      which agent (default: the only one that there is)
  --title TEXT      of the session
${MESSAGE_USAGE}
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    ...MESSAGE_OPTIONS,
    agent: { type: 'string' },
    title: { type: 'string' },
  });
  const { task } = takeArguments(positionals, 'task');
  const options = readSendOptions(values);
  const { title } = values;
  const agent = values.agent ?? (await onlyAgent(client));
  const session = await client.sessions.create({ agent, ...(title !== undefined && { title }) });
  return deliver(client, { sessionId: session.id, text: task, options, isJson, isFollowed: values.follow });
}

/** @throws UsageError if there is not exactly one agent */
async function onlyAgent(client: BatonClient): Promise<string> {
  const { agents } = await client.agents();
  const [first, ...others] = agents;
  if (first === undefined) throw new UsageError('The service has no agents.');
  if (others.length === 0) return first.name;
  throw new UsageError(`--agent is missing: one of ${agents.map(({ name }) => name).join(', ')}.`);
}
