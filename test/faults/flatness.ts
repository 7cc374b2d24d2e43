import { parseArgs } from 'node:util';
import type { Backend } from '../support/backends.ts';
import { findServices } from '../support/find-services.ts';
import { type FlatnessRow, measureFlatness } from './flatness-measure.ts';

const USAGE = `npm run flatness -- [--runs 2000] [--backend redis|postgres] [--json]

Drives the service through short runs, half of them cancelled: before they begin, in their stream, in their tool. Says what
there is more of afterwards: connections, keys, rows, timers, handles, listeners, memory. Without --backend it tries all
that there are here. Exit code 0: flat; 1: something grows; 2: it could not be measured.`;

try {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '2000' },
      backend: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) process.stdout.write(`${USAGE}\n`);
  else await measure(Number(values.runs), values.backend, values.json === true);
} catch (error) {
  process.stderr.write(`flatness: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}

async function measure(runs: number, wanted: string | undefined, json: boolean): Promise<void> {
  if (!Number.isInteger(runs) || runs < 100) throw new Error('--runs is a whole number, at least 100');
  await using services = await findServices();
  const { postgresUrl, redisUrl } = services;
  const available: readonly Backend[] = redisUrl === null ? ['postgres'] : ['redis', 'postgres'];
  const backends = available.filter((backend) => wanted === undefined || backend === wanted);
  if (backends.length === 0) throw new Error(`there is no ${wanted} here: ${available.join(', ')}`);
  for (const backend of backends) {
    const row = await measureFlatness({ backend, postgresUrl, redisUrl }, runs);
    process.stdout.write(json ? `${JSON.stringify(row)}\n` : toText(row));
    if (!row.flat) process.exitCode = 1;
  }
}

function toText({ backend, runs, cancelled, counts, heapMb, ...row }: FlatnessRow): string {
  const lines = Object.entries({ ...counts, 'heap MB': heapMb }).map(
    ([name, [before, after]]) => `  ${name.padEnd(28)} ${String(before).padStart(9)} ${String(after).padStart(9)}`,
  );
  const verdict = row.flat ? 'flat' : `NOT FLAT: ${row.grown.join(', ')}`;
  return `${backend}: ${runs} runs, ${cancelled} cancelled: ${verdict} (heap ${row.heapPerRunBytes} bytes per run)\n${lines.join('\n')}\n`;
}
