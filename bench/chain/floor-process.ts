// The floor's worker: BullMQ and the AI SDK alone. Each job is one step; what was said so far is kept in memory.
import { dynamicTool, isStepCount, jsonSchema, type ModelMessage, streamText } from 'ai';
import { tellParent, untilParentStops } from '../process/parent.ts';
import { askForSteps, createChainModel, TOOL_RESULT } from './model.ts';
import { type FloorJob, openFloorQueue, openFloorWorker } from './queue.ts';
import { TOOL_DESCRIPTION, TOOL_SCHEMA } from './tool.ts';

globalThis.AI_SDK_LOG_WARNINGS = false;
const model = createChainModel();
const queue = openFloorQueue(process.env);
const histories = new Map<string, ModelMessage[]>();

async function work({ id, step, steps, history }: FloorJob): Promise<void> {
  const known = histories.get(id) ?? [];
  const asked: ModelMessage = { role: 'user', content: askForSteps(history ? steps : steps - step + 1) };
  const result = streamText({
    model,
    messages: [asked, ...known],
    tools: {
      look: dynamicTool({
        description: TOOL_DESCRIPTION,
        inputSchema: jsonSchema(TOOL_SCHEMA),
        execute: async () => TOOL_RESULT,
      }),
    },
    stopWhen: isStepCount(1),
    maxRetries: 0,
  });
  let text = '';
  for await (const part of result.stream) if (part.type === 'text-delta') text += part.text;
  if (text === '') throw new Error('the model said nothing');
  if (history) histories.set(id, [...known, ...(await result.responseMessages)]);
  if (step < steps) {
    await queue.add(
      'step',
      { id, step: step + 1, steps, history },
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
