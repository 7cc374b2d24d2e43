import { parseArgs } from 'node:util';
import { z } from 'zod';
import { CASES } from './cases.ts';
import { formatTable, type Row } from './row.ts';
import { describeServices, startServices } from './services.ts';

const USAGE = `npm run bench -- [--only NAME[,NAME]] [--backend redis|postgres] [--json] [--small]

Measures how fast the service is, with a Postgres and a Redis of its own; DATABASE_URL and REDIS_URL name others. --json
prints a row per line. --small shows that the cases work, its numbers mean nothing. Exit code 0: every goal is met; 1: one
is missed; 2: it could not be measured.`;

try {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      backend: { type: 'string' },
      json: { type: 'boolean' },
      small: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  const names = values.only?.split(',') ?? Object.keys(CASES);
  if (values.help === true) console.log(`${USAGE}\n\nCases: ${Object.keys(CASES).join(', ')}`);
  else {
    const backend = z.enum(['redis', 'postgres']).optional().parse(values.backend);
    await run(names, backend, values.json === true, values.small === true ? 'small' : 'full');
  }
} catch (error) {
  console.error('bench:', messageOf(error));
  process.exitCode = 2;
}

async function run(
  names: readonly string[],
  backend: 'redis' | 'postgres' | undefined,
  json: boolean,
  scale: 'full' | 'small',
): Promise<void> {
  const cases = names.map((name) => {
    const measure = CASES[name];
    if (measure === undefined) throw new Error(`there is no case ${name}: ${Object.keys(CASES).join(', ')}`);
    return measure;
  });
  await using services = await startServices(backend);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, async () => {
      await services[Symbol.asyncDispose]();
      process.exit(130);
    });
  }
  console.error(await describeServices(services));
  const rows: Row[] = [];
  for (const measure of cases) {
    const measured = await measure({ services, scale });
    rows.push(...measured);
    if (json) for (const row of measured) console.log(JSON.stringify(row));
  }
  if (!json) console.log(formatTable(rows));
  if (rows.some((row) => !row.ok)) process.exitCode = 1;
}

/** The message of an error, with the errors that followed while everything was stopped. */
function messageOf(error: unknown): string {
  if (error instanceof SuppressedError) return `${messageOf(error.suppressed)}; then ${messageOf(error.error)}`;
  return error instanceof Error ? error.message : String(error);
}
