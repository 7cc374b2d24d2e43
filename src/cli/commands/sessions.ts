import type { ListedSession, SessionStatus } from '../../client/client.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, wholeNumber, writeJson, writeLine } from '../remote.ts';
import { count, oneLine } from '../terminal/words.ts';

const STATUSES = ['idle', 'busy', 'requires_action'] as const satisfies readonly SessionStatus[];

export const usage = `baton sessions [options]

Lists sessions, newest first.

  --search WORDS    only sessions with the words in their title, key, metadata or one of their messages
  --status STATUS   only sessions with the status ${STATUSES.join(', ')}
  --parent ID       only the children of the session
  --limit N         most sessions to list (default: 50, at most 200)
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    search: { type: 'string' },
    status: { type: 'string' },
    parent: { type: 'string' },
    limit: { type: 'string' },
  });
  takeArguments(positionals);
  const limit = wholeNumber('--limit', values.limit);
  const { search, status, parent } = values;
  const page = await client.sessions.list({
    ...(search !== undefined && { q: search }),
    ...(status !== undefined && { status: oneOf('--status', STATUSES, status) }),
    ...(parent !== undefined && { parent }),
    ...(limit !== undefined && { limit }),
  });
  if (isJson) writeJson(page);
  else if (page.sessions.length === 0) writeLine('There are no sessions.');
  else for (const session of page.sessions) writeLine(lineOf(session) + hitOf(session));
  return 0;
}

function lineOf(session: ListedSession): string {
  const { id, status, agent, updatedAt, steps, usage: used, name, forkedFrom, parentSessionId } = session;
  const work = [count(steps, 'step'), count(used.totalTokens, 'token')];
  const fork = forkedFrom === null ? [] : [`fork of ${forkedFrom.sessionId}`];
  const origin = parentSessionId === null ? fork : [`child of ${parentSessionId}`];
  return [id, status.padEnd(15), `${updatedAt.slice(0, 16)}Z`, agent, ...work, ...origin, oneLine(name, 80)].join('  ');
}

const hitOf = ({ hit }: ListedSession): string =>
  hit === null ? '' : `\n  ${hit.role}: … ${oneLine(hit.text, 160)} …`;
