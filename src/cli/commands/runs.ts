import type { Run } from '../../client/client.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, wholeNumber, writeJson, writeLine } from '../remote.ts';
import { cost, count, oneLine } from '../terminal/words.ts';

export const usage = `baton runs [options]

Lists runs, newest first, with what began them and the names of their sessions.

  --status STATUS   only runs with this status: ${RUN_STATUSES.slice(0, 4).join(', ')},
                    ${RUN_STATUSES.slice(4).join(', ')}
  --session ID      only the runs of the session
  --limit N         most runs to list (default: 50, at most 200)
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    status: { type: 'string' },
    session: { type: 'string' },
    limit: { type: 'string' },
  });
  takeArguments(positionals);
  const limit = wholeNumber('--limit', values.limit);
  const { status, session } = values;
  const page = await client.runs.list({
    ...(status !== undefined && { status: oneOf('--status', RUN_STATUSES, status) }),
    ...(session !== undefined && { sessionId: session }),
    ...(limit !== undefined && { limit }),
  });
  if (isJson) writeJson(page);
  else if (page.runs.length === 0) writeLine('There are no runs.');
  else for (const each of page.runs) writeLine(lineOf(each));
  return 0;
}

function lineOf({ id, status, createdAt, agent, trigger, steps, costUsd, sessionName }: Run): string {
  const facts = [id, status.padEnd(15), `${createdAt.slice(0, 16)}Z`, agent, trigger, count(steps, 'step')];
  return [...facts, cost(costUsd), oneLine(sessionName, 80)].join('  ');
}
