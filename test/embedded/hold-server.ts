// Starts an embedded server on the directory of the first argument, prints one JSON line, and then, by the second:
// `hold` (default): holds it until stdin ends; on SIGINT proves that the server still answers, prints a line, and stops
// `forget`: ends at once without stopping it
// `lose`: drops every reference to it, collects garbage, and lives until stdin ends
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Client } from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/launcher.ts';

const [dataDir = '', mode = 'hold'] = process.argv.slice(2);

function print(value: object): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function ignore(): void {}

function describe({ pid, port, connectionString }: EmbeddedPostgres): object {
  return { pid, port, connectionString };
}

async function answerOnSigint(postgres: EmbeddedPostgres): Promise<void> {
  const client = new Client({ connectionString: postgres.connectionString });
  await client.connect();
  const { rows } = await client.query('SELECT 1 AS answer');
  await client.end();
  print({ afterSigint: rows[0].answer });
  process.stdin.destroy();
  await postgres[Symbol.asyncDispose]();
}

async function hold(): Promise<void> {
  const postgres = await startEmbeddedPostgres({ dataDir });
  process.stdin.on('end', () => void postgres[Symbol.asyncDispose]()).resume();
  process.once('SIGINT', () => void answerOnSigint(postgres));
  print(describe(postgres));
}

async function lose(): Promise<void> {
  const started = await startEmbeddedPostgres({ dataDir, log: ignore }).then(describe);
  setFlagsFromString('--expose-gc');
  const collectGarbage: () => void = runInNewContext('gc');
  for (let round = 0; round < 3; round++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  process.stdin.resume();
  print(started);
}

async function forget(): Promise<void> {
  print(describe(await startEmbeddedPostgres({ dataDir })));
}

const run = mode === 'forget' ? forget : mode === 'lose' ? lose : hold;
await run().catch((error: Error & { code?: string }) => print({ code: error.code, message: error.message }));
