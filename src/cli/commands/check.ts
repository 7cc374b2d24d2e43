import { parseArgs } from 'node:util';
import { checkStart } from '../../app/check-start.ts';
import { EXIT } from '../exit-codes.ts';
import { printable } from '../terminal/words.ts';

export const usage = `baton check [--offline]

Finds what would keep the service from starting, or would be warned of: in its settings, its files, its agents and their
tools, in Postgres and in Redis. Nothing is started and nothing is changed.

  --offline   asks neither Postgres nor Redis

Exit code 1 where anything is wrong; warnings are none.`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { offline: { type: 'boolean', default: false } } });
  let isWrong = false;
  for await (const { level, what, message } of checkStart(environment, values)) {
    isWrong ||= level === 'error';
    console.log(`${level.padEnd(8)} ${printable(`${what}: ${message}`)}`);
  }
  return isWrong ? EXIT.failed : EXIT.done;
}
