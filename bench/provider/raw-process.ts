// The chain by the AI SDK alone over HTTP: nothing is stored or streamed to readers.
import { createOpenAI } from '@ai-sdk/openai';
import type { ModelMessage } from 'ai';
import { createModels } from '../../src/model/providers.ts';
import { CHAIN_MODEL } from '../chain/agent.ts';
import { type Answering, runModelStep } from '../chain/step.ts';
import { DELTAS_PER_STEP, type TaskInput, taskText } from '../chain/task.ts';
import { machineNowMs } from '../clock.ts';
import { answerParent } from '../process/asked.ts';

/** Takes one conversation through the task. The provider tells conversations apart by the cache key. */
export type RawQuestion = Readonly<{ baseUrl: string; cacheKey: string; task: TaskInput }>;

/** Times of the deltas of the last step, in milliseconds of the machine's clock. */
export type RawAnswer = Readonly<{ firstDeltaAtMs: number; lastDeltaAtMs: number }>;

answerParent(async ({ baseUrl, cacheKey, task }: RawQuestion): Promise<RawAnswer> => {
  const resolved = createModels({ openaiApiKey: 'bench', openaiBaseUrl: baseUrl })(CHAIN_MODEL);
  let firstDeltaAtMs = Number.NaN;
  let lastDeltaAtMs = Number.NaN;
  const answering: Answering = {
    // Not the model of Baton, which keeps the digits and keys of arguments in a form of its own.
    model: createOpenAI({ apiKey: 'bench', baseURL: baseUrl }).responses(resolved.modelId),
    providerOptions: resolved.providerOptions(cacheKey),
    deltas: task.deltas ?? DELTAS_PER_STEP,
    onDelta() {
      lastDeltaAtMs = machineNowMs();
      if (Number.isNaN(firstDeltaAtMs)) firstDeltaAtMs = lastDeltaAtMs;
    },
  };
  let history: ModelMessage[] = [{ role: 'user', content: taskText(task) }];
  for (let step = 0; step < task.steps; step++) {
    firstDeltaAtMs = Number.NaN;
    history = [...history, ...(await runModelStep(history, answering))];
  }
  return { firstDeltaAtMs, lastDeltaAtMs };
});
