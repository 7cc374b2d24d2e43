import { readAgent } from '../agents/agent.ts';
import type { FailurePorts } from '../commands/after-commit.ts';
import { toSafeError } from '../platform/log.ts';
import type { LeftWork } from '../store/work/run-failure.ts';
import type { StepDeps } from './deps.ts';

type LeftWorkDeps = Pick<StepDeps, 'log' | 'toolsOf'>;

/**
 * Stops what the calls of failed runs have begun elsewhere. A run that was given up has cost many workers, so this
 * happens outside of its steps, and once: if the process ends meanwhile, that work goes on.
 */
export const createLeftWorkStop =
  (deps: LeftWorkDeps): FailurePorts['stopLeftWork'] =>
  (left) =>
    void stopAll(deps, left).catch((error: unknown) =>
      deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) }),
    );

async function stopAll({ toolsOf }: LeftWorkDeps, { agentSnapshot, calls }: LeftWork): Promise<void> {
  const tools = new Map((await toolsOf(readAgent(agentSnapshot))).map((tool) => [tool.name, tool]));
  await Promise.all(calls.map(({ toolName, work }) => tools.get(toolName)?.resumes?.stop(work)));
}
