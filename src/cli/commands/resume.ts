import { LIMIT_OPTIONS, LIMIT_USAGE, readLimits } from '../deliver.ts';
import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { watchWhatFollows } from '../watch-run.ts';

export const usage = `baton resume [options] SESSION

Goes on after a failure, a cancel or a limit, with the messages that were left waiting.

  --follow          show what happens until the run has ended or waits for an answer
${LIMIT_USAGE}
${REMOTE_USAGE}`;

const OPTIONS = { ...LIMIT_OPTIONS, follow: { type: 'boolean', default: false } } as const;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, OPTIONS);
  const { session } = takeArguments(positionals, 'session');
  const limits = readLimits(values);
  const resume = async () => {
    const resumed = await client.sessions.resume(session, { limits });
    if (isJson) writeJson(resumed);
    else writeLine(`run        ${resumed.runId}`);
    return { runId: resumed.runId, mayWait: false };
  };
  if (values.follow) return watchWhatFollows(client, session, isJson, resume);
  await resume();
  return EXIT.done;
}
