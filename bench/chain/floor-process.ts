// The floor's worker: BullMQ and the AI SDK alone. Each job is one step; earlier messages are kept in memory.
import type { ModelMessage } from 'ai';
import { tellParent, untilParentStops } from '../process/parent.ts';
import { type FloorJob, openFloorQueue, openFloorWorker } from './queue.ts';
import { firstMessage, runModelStep, runSingleCall } from './step.ts';

globalThis.AI_SDK_LOG_WARNINGS = false;
const queue = openFloorQueue(process.env);
const histories = new Map<string, ModelMessage[]>();

async function work({ id, step, steps, call }: FloorJob): Promise<void> {
  const known = histories.get(id) ?? [];
  const messages = [firstMessage(steps), ...known];
  const added = await (call === 'loop' ? runModelStep(messages) : runSingleCall(messages));
  histories.set(id, [...known, ...added]);
  if (step < steps) {
    await queue.add(
      'step',
      { id, step: step + 1, steps, call },
      { jobId: `${id}-${step + 1}`, removeOnComplete: true },
    );
    return;
  }
  histories.delete(id);
  tellParent({ event: 'ended', id });
}

const worker = openFloorWorker(process.env, work, Number(process.env['BENCH_CONCURRENCY']));
worker.on('failed', (_job, error) => {
  console.error(error);
  process.exit(1);
});
await worker.waitUntilReady();
tellParent({ event: 'ready' });
await untilParentStops();
await worker.close();
await queue.close();
process.exit(0);
