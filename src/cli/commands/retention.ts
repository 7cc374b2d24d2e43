import { parseArgs } from 'node:util';
import { loadConfig } from '../../platform/config.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { createLog } from '../../platform/log.ts';
import { openQueues } from '../../queues/open-queues.ts';
import { applyRetention, previewRetention } from '../../recovery/retention.ts';
import { openCommandDatabase } from '../command-database.ts';
import { UsageError } from '../exit-codes.ts';

export const usage = `baton retention --older-than 30d [--dry-run]   (npm run retention -- …)

Removes data older than --older-than (30d, 12h): idle and closed sessions without activity, events of sessions that
stay, blobs without a reference, entries of the audit log, and jobs of failed runs. Sessions past their expiresAt go, too.
A session at work is left alone.`;

const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000 };

function readAge(text: string | undefined): number {
  const [, count, unit = ''] = /^([1-9]\d{0,5})([hd])$/.exec(text ?? '') ?? [];
  const unitMs = UNITS_MS[unit];
  if (count === undefined || unitMs === undefined) throw new UsageError('--older-than needs an age: 30d, 12h');
  return Number(count) * unitMs;
}

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { 'older-than': { type: 'string' }, 'dry-run': { type: 'boolean' } },
  });
  const olderThanMs = readAge(values['older-than']);
  const isDryRun = values['dry-run'] === true;
  const config = loadConfig(environment);
  await using stack = new AsyncDisposableStack();
  const { db, connectionString } = await openCommandDatabase(config, stack);
  const log = createLog({ level: config.logLevel });
  const deps = { db, jobs: stack.use(await openQueues(config, connectionString, log)), log };
  const counts = await (isDryRun ? previewRetention(deps, olderThanMs) : applyRetention(deps, olderThanMs));
  const { sessions, events, blobs, auditEntries, failedJobs } = counts;
  const verb = isDryRun ? 'Would remove' : 'Removed';
  const rows = `${sessions} sessions, ${events} events, ${blobs} blobs, ${auditEntries} audit entries`;
  console.log(`${verb} ${rows}, ${failedJobs} failed jobs.`);
  return 0;
}
