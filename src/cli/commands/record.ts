import { recordSession } from '../../cases/record-session.ts';
import { cleanerFor } from '../../cases/shown-request.ts';
import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments } from '../remote.ts';

export const usage = `baton record [options] SESSION|RUN > case.json

Prints a session, or a session up to the end of a run, as a case that "baton test" plays again: messages, the requests
and answers of each step, and the results of the tools. Keys and passwords are removed, other contents are not. The key
needs the scope admin.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client } = readRemote(args, environment, {});
  const { session } = takeArguments(positionals, 'session');
  const recorded = await recordSession(client, session, cleanerFor(environment));
  process.stdout.write(`${JSON.stringify(recorded, null, 1)}\n`);
  return EXIT.done;
}
