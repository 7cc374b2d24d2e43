import type { LanguageModel } from 'ai';

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type CallOptions = Parameters<Model['doStream']>[0];
type StreamPart = Awaited<ReturnType<Model['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never;

export const DELTAS_PER_STEP = 20;
const DELTA = 'and so it goes on, ';

/** What the tool of the chain gives back: 200 characters. */
export const TOOL_RESULT = 'export const answer = 42; '.repeat(8).slice(0, 200);

/** Asks for so many steps: the model reads it in the first message. */
export const askForSteps = (steps: number): string => `Work for ${steps} steps on it.`;

/**
 * A model in this process: each answer is 20 deltas of text and one tool call, all at once; the last of the chain has no
 * call. Where it is in the chain it counts in the prompt, so that every contestant has to send the whole conversation.
 */
export function createChainModel(): Model {
  return {
    specificationVersion: 'v4',
    provider: 'bench',
    modelId: 'chain',
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error('the model only streams')),
    async doStream({ prompt }) {
      const { steps, done } = placeInChain(prompt);
      return { stream: streamOf(answer(done + 1, steps)) };
    },
  };
}

function placeInChain(prompt: CallOptions['prompt']): { steps: number; done: number } {
  const first = prompt.find(({ role }) => role === 'user');
  const text =
    first?.role === 'user' ? first.content.map((part) => (part.type === 'text' ? part.text : '')).join('') : '';
  const steps = Number(/Work for (\d+) steps/.exec(text)?.[1]);
  let done = 0;
  for (const { role } of prompt) if (role === 'assistant') done += 1;
  return { steps, done };
}

function* answer(step: number, steps: number): Generator<StreamPart> {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'text-start', id: 'text' };
  for (let no = 0; no < DELTAS_PER_STEP; no++) yield { type: 'text-delta', id: 'text', delta: DELTA };
  yield { type: 'text-end', id: 'text' };
  const isLast = step >= steps;
  if (!isLast) {
    const input = JSON.stringify({ path: `src/part-${step}/file.ts` });
    yield { type: 'tool-call', toolCallId: `call_${step}`, toolName: 'look', input };
  }
  yield {
    type: 'finish',
    finishReason: isLast ? { unified: 'stop', raw: 'stop' } : { unified: 'tool-calls', raw: 'tool_calls' },
    usage: {
      inputTokens: { total: 150 * step, noCache: 150 * step, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 120, text: 120, reasoning: 0 },
    },
  };
}

function streamOf(parts: Iterable<StreamPart>): ReadableStream<StreamPart> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}
