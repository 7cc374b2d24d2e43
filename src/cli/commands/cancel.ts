import type { BatonClient, Run } from '../../client/client.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';

export const usage = `baton cancel [options] SESSION|RUN

Cancels a run, or the active run of a session, and waits until it has ended. Streamed text is kept.

  --clear-queue     remove the queued messages of the session, too
${REMOTE_USAGE}`;

const CANCEL_WAIT_MS = 30_000;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    'clear-queue': { type: 'boolean', default: false },
  });
  const { id } = takeArguments(positionals, 'id');
  const isRun = id.startsWith('run_');
  if (isRun && values['clear-queue']) throw new UsageError('--clear-queue belongs to a session.');
  const queue = values['clear-queue'] ? 'clear' : 'keep';
  const runId = isRun ? id : (await client.sessions.cancel(id, { queue })).runId;
  const cancelled = runId === null ? null : await ended(client, runId, isRun);
  if (isJson) writeJson(cancelled);
  else writeLine(cancelled === null ? 'Nothing was active.' : `${cancelled.id} is ${cancelled.status}.`);
  return cancelled?.status === 'cancelling' ? EXIT.failed : EXIT.done;
}

/** The run at its end, or as it is after the wait. A session's run is cancelled already. */
const ended = ({ runs }: BatonClient, runId: string, cancels: boolean): Promise<Run> =>
  cancels ? runs.cancel(runId, { waitMs: CANCEL_WAIT_MS }) : runs.wait(runId, { timeoutMs: CANCEL_WAIT_MS });
