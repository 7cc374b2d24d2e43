import { parseArgs } from 'node:util';
import { checkStart } from '../../app/check-start.ts';
import { EXIT } from '../exit-codes.ts';
import { printable } from '../terminal/words.ts';

export const usage = `baton check [--offline]

Finds causes that would prevent a start, or would be warned of: in settings, files, agents and their tools, in Postgres
and in Redis. Nothing is started and nothing is changed.

  --offline   ask neither Postgres nor Redis

Exit code 1 if anything is wrong. Warnings do not count.`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { offline: { type: 'boolean', default: false } } });
  let isWrong = false;
  for await (const { level, what, message } of checkStart(environment, values)) {
    isWrong ||= level === 'error';
    console.log(`${level.padEnd(8)} ${printable(`${what}: ${message}`)}`);
  }
  return isWrong ? EXIT.failed : EXIT.done;
}
