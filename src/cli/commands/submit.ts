import { deliver, MESSAGE_OPTIONS, MESSAGE_USAGE, readSendOptions } from '../deliver.ts';
import { REMOTE_USAGE, readRemote, takeArguments } from '../remote.ts';

export const usage = `baton submit [options] "task"

Gives an agent a task in a new session.

  --agent NAME      which agent (default: workspace)
  --title TEXT      of the session
${MESSAGE_USAGE}
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    ...MESSAGE_OPTIONS,
    agent: { type: 'string', default: 'workspace' },
    title: { type: 'string' },
  });
  const { task } = takeArguments(positionals, 'task');
  const options = readSendOptions(values);
  const { agent, title } = values;
  const session = await client.sessions.create({ agent, ...(title !== undefined && { title }) });
  return deliver(client, { sessionId: session.id, text: task, options, isJson, isFollowed: values.follow });
}
