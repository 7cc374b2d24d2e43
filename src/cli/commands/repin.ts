import { EXIT } from '../exit-codes.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { printable } from '../terminal/words.ts';

export const usage = `baton repin [options] SESSION

Accepts the definitions that the MCP servers of a session offer now, and lists the changes. Without it a session keeps
the tools that it began with.

${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, client, isJson } = readRemote(args, environment, {});
  const { session } = takeArguments(positionals, 'session');
  const repinned = await client.sessions.repin(session);
  if (isJson) {
    writeJson(repinned);
    return EXIT.done;
  }
  if (repinned.changes.length === 0) writeLine('Nothing has changed.');
  for (const { server, added, changed, removed } of repinned.changes) {
    for (const [what, tools] of Object.entries({ added, changed, removed })) {
      if (tools.length > 0) writeLine(`${server.padEnd(10)} ${what} ${printable(tools.join(', '))}`);
    }
  }
  return EXIT.done;
}
