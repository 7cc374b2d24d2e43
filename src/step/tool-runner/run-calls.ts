import type { JobScope } from '../../claims/job-scope.ts';
import type { PlacedCall } from '../../domain/transcript/required-action.ts';
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
  const waiting = calls.values();
  const lanes = Array.from({ length: Math.min(toolConcurrency, calls.length) }, async () => {
    for (const call of waiting) {
      const stopped = held.stopped();
      if (stopped === 'lost' || stopped === 'shutdown') return;
      await runner.run(call);
    }
  });
  await Promise.allSettled(lanes);
}
