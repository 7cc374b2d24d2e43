import { JOB_KINDS } from '../../domain/run/job.ts';
import type { Composition } from '../../library/compose.ts';
import { runProcess } from '../../service/run-process.ts';
import { startWorkers } from '../../service/step-processes.ts';
import { UsageError } from '../exit-codes.ts';

export const usage = `baton worker [steps|compactions|prunes|deliveries|all]

Runs a worker for one kind of jobs, or for all (default). Settings come from the environment.`;

const KINDS = {
  steps: ['step'],
  compactions: ['compaction'],
  prunes: ['prune'],
  deliveries: ['delivery'],
  all: JOB_KINDS,
} as const;

const isName = (name: string): name is keyof typeof KINDS => Object.hasOwn(KINDS, name);

export async function run([name = 'all', ...more]: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  if (!isName(name) || more.length > 0) throw new UsageError(`not a kind of worker: ${[name, ...more].join(' ')}`);
  const kinds = KINDS[name];
  const role = name === 'all' ? 'worker' : name;
  const options = { migrate: false, jobKinds: kinds.length, environment };
  const start = async (composition: Composition): Promise<undefined> => {
    await startWorkers(composition, environment, kinds);
    return undefined;
  };
  await runProcess(role, start, options);
  return 0;
}
