import { setTimeout as pause } from 'node:timers/promises';
import type { LanguageModel } from 'ai';
import { DELTA, placeInChain } from './answer.ts';
import type { Task } from './task.ts';

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type CallOptions = Parameters<Model['doStream']>[0];
type StreamPart = Awaited<ReturnType<Model['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never;

/**
 * A model in this process. Each answer has text deltas and tool calls, at once unless the task sets pauses; the last
 * answer of the chain has no calls.
 * @param onPaced called after each paced answer with its duration as a multiple of its pauses
 */
export function createChainModel(onPaced: (stretch: number) => void = () => undefined): Model {
  return {
    specificationVersion: 'v4',
    provider: 'bench',
    modelId: 'chain',
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error('the model only streams')),
    async doStream({ prompt }) {
      const { task, step } = placeInChain(prompt.map((message) => ({ role: message.role, text: textOf(message) })));
      if (task.thinkMs > 0) await pause(task.thinkMs);
      const parts = answer(step, task, Math.ceil(charsOf(prompt) / CHARS_PER_TOKEN));
      return { stream: task.deltaPauseMs > 0 ? slowly(parts, task.deltaPauseMs, onPaced) : atOnce(parts) };
    },
  };
}

/** The text of a user message; '' for others. */
function textOf(message: CallOptions['prompt'][number]): string {
  return message.role === 'user' ? message.content.map((part) => (part.type === 'text' ? part.text : '')).join('') : '';
}

const CHARS_PER_TOKEN = 4;

/** Bills the characters of the prompt, about as a provider would. */
function charsOf(prompt: CallOptions['prompt']): number {
  let chars = 0;
  for (const { content } of prompt) {
    if (typeof content === 'string') chars += content.length;
    else for (const part of content) chars += charsOfPart(part);
  }
  return chars;
}

function charsOfPart(part: Exclude<CallOptions['prompt'][number]['content'], string>[number]): number {
  if (part.type === 'text') return part.text.length;
  if (part.type === 'tool-call') return JSON.stringify(part.input).length;
  if (part.type === 'tool-result' && part.output.type === 'text') return part.output.value.length;
  return 0;
}

function* answer(
  step: number,
  { steps, calls, outputChars, deltas }: Task,
  inputTokens: number,
): Generator<StreamPart> {
  yield { type: 'stream-start', warnings: [] };
  yield { type: 'text-start', id: 'text' };
  for (let no = 0; no < deltas; no++) yield { type: 'text-delta', id: 'text', delta: DELTA };
  yield { type: 'text-end', id: 'text' };
  const isLast = step >= steps;
  for (let no = 0; !isLast && no < calls; no++) {
    const input = JSON.stringify({ path: `src/part-${step}/file-${no}.ts`, chars: outputChars });
    yield { type: 'tool-call', toolCallId: `call_${step}_${no}`, toolName: 'look', input };
  }
  const outputTokens = 5 * deltas + 20;
  yield {
    type: 'finish',
    finishReason: isLast ? { unified: 'stop', raw: 'stop' } : { unified: 'tool-calls', raw: 'tool_calls' },
    usage: {
      inputTokens: { total: inputTokens, noCache: inputTokens, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
    },
  };
}

function atOnce(parts: Iterable<StreamPart>): ReadableStream<StreamPart> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

/** Each delta has a fixed time, so a late one does not delay the next: a reader that keeps up loses nothing. */
function slowly(
  parts: Generator<StreamPart>,
  pauseMs: number,
  onPaced: (stretch: number) => void,
): ReadableStream<StreamPart> {
  let startedAtMs: number | undefined;
  let dueMs = 0;
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = parts.next();
      startedAtMs ??= performance.now();
      if (done === true) {
        onPaced((performance.now() - startedAtMs) / dueMs);
        return controller.close();
      }
      if (value.type === 'text-delta') {
        dueMs += pauseMs;
        const waitMs = startedAtMs + dueMs - performance.now();
        if (waitMs > 0) await pause(waitMs);
      }
      controller.enqueue(value);
    },
  });
}
