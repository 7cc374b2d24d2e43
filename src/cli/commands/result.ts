import type { Run } from '../../client/client.ts';
import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { MAX_ERROR_CHARS, oneLine, printable } from '../terminal/words.ts';

export const usage = `baton result [options] RUN

Waits until a run has ended and prints its answer, or its result as JSON if the run has an output schema. --json prints
the whole run.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const { run: runId } = takeArguments(positionals, 'run');
  const ended = await client.runs.wait(runId);
  if (isJson) writeJson(ended);
  else print(ended);
  if (ended.status === 'requires_action') return EXIT.requiresAction;
  return ended.status === 'completed' ? EXIT.done : EXIT.failed;
}

function print({ id, status, reason, error, output }: Run): void {
  if (output?.value !== undefined) writeJson(output.value);
  else if (output != null && output.text !== '') writeLine(printable(output.text));
  for (const { filename, mediaType, url } of output?.files ?? []) {
    writeLine(`file ${[filename, mediaType, url.replace('@blob:', '')].join(' ').trim()}`);
  }
  if (status === 'completed') return;
  const why = error === null ? reason : `${error.code}: ${oneLine(error.message, MAX_ERROR_CHARS)}`;
  process.stderr.write(`${id} is ${status}${why === null ? '' : ` (${printable(why)})`}.\n`);
}
