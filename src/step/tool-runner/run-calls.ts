import type { JobScope } from '../../claims/job-scope.ts';
import type { PlacedCall } from '../../domain/transcript/required-action.ts';
import { inLanes } from '../../platform/in-lanes.ts';
import type { ToolRunner } from './tool-runner.ts';

/**
 * Runs calls in their order, as many at once as the step may. None starts once another worker is to go on. Never
 * rejects: the runner throws the errors when the step ends.
 */
export async function runCalls(
  { held, toolConcurrency }: JobScope,
  runner: ToolRunner,
  calls: readonly PlacedCall[],
): Promise<void> {
  const isGoingOn = (): boolean => {
    const stopped = held.stopped();
    return stopped !== 'lost' && stopped !== 'shutdown';
  };
  await inLanes(calls, toolConcurrency, async (call) => isGoingOn() && runner.run(call)).catch(() => undefined);
}
