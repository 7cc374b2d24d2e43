import { parseArgs } from 'node:util';
import { loadConfig } from '../../platform/config.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { beginHistory } from '../../store/db/history.ts';
import { openCommandDatabase } from '../command-database.ts';

export const usage = `baton restored

Tells all processes and readers that the database was set back in time. Run it after a restore of the disk. Baton itself
notices a restored dump, a recovery to a point in time and a promoted standby.`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  parseArgs({ args: [...args] });
  const config = loadConfig(environment);
  await using stack = new AsyncDisposableStack();
  const { db } = await openCommandDatabase(config, stack);
  console.log(`The history of the database is now ${await beginHistory(db)}.`);
  return 0;
}
