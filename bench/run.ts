import { parseArgs } from 'node:util';
import { benchContext } from './context.ts';
import { formatTable, type Row } from './row.ts';
import { benchSessionLength } from './session-length.ts';

const USAGE = `npm run bench -- [--only NAME] [--json]

Measures how fast the service is, each case in a database of its own on DATABASE_URL (default: a Postgres on this
machine). Exit code 0: every goal is met; 1: one is missed; 2: it could not be measured.`;

/** The cases by name. Each prints a row for everything that it times. */
const CASES: Readonly<Record<string, () => Promise<Row[]>>> = {
  context: benchContext,
  'session-length': benchSessionLength,
};

try {
  const { values } = parseArgs({
    options: { only: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean' } },
  });
  if (values.help === true) console.log(`${USAGE}\n\nCases: ${Object.keys(CASES).join(', ')}`);
  else await run(values.only, values.json === true);
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}

async function run(only: string | undefined, json: boolean): Promise<void> {
  if (only !== undefined && CASES[only] === undefined) {
    throw new Error(`there is no case ${only}: ${Object.keys(CASES).join(', ')}`);
  }
  const rows: Row[] = [];
  for (const [name, measure] of Object.entries(CASES))
    if (only === undefined || only === name) rows.push(...(await measure()));
  console.log(json ? JSON.stringify(rows, null, 2) : formatTable(rows));
  if (rows.some((row) => !row.ok)) process.exitCode = 1;
}
