import { isStepCount, jsonSchema, type LanguageModel, type ModelMessage, streamText, type ToolSet, tool } from 'ai';

/** What every side of a comparison does: this many sessions side by side, each a chain of this many steps. */
export const CHAIN = { sessions: 50, steps: 40 } as const;

/** Text deltas of one answer, about 20 characters each; one tool call follows them. */
export const DELTAS_PER_STEP = 20;

/** The user message that every session begins with. */
export const FIRST_MESSAGE: ModelMessage = { role: 'user', content: 'Which files here mention errors?' };

/** The tool that every answer calls. It does nothing, so that what is measured is what surrounds it. */
export const WORK_TOOL = {
  name: 'search_files',
  description: 'Searches the files of the workspace.',
  inputSchema: {
    type: 'object',
    properties: { query: { type: 'string' }, page: { type: 'integer' } },
    required: ['query', 'page'],
    additionalProperties: false,
  },
  /** About 200 characters. */
  execute: async (): Promise<string> => TOOL_RESULT,
} as const;

const TOOL_RESULT = 'src/example.ts:12: throw new Error("not found")\n'.repeat(4);

type WorkModel = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type ModelStreamPart = Awaited<ReturnType<WorkModel['doStream']>>['stream'] extends ReadableStream<infer P> ? P : never;

/**
 * A model inside the process that answers at once: 20 text deltas and one call of the tool, again and again. It never
 * ends a conversation by itself: the chain has as many steps as its caller makes. It keeps nothing of what it is asked.
 */
export function createWorkModel(): WorkModel {
  return {
    specificationVersion: 'v4',
    provider: 'bench',
    modelId: 'work',
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error('the benchmark streams')),
    doStream: async ({ prompt }) => ({ stream: streamOf(answerTo(prompt.length)) }),
  };
}

const streamOf = (parts: readonly ModelStreamPart[]): ReadableStream<ModelStreamPart> =>
  new ReadableStream({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

/** The call's id says how long the conversation was, so that no two calls of a session share one. */
function answerTo(promptLength: number): ModelStreamPart[] {
  return [
    { type: 'stream-start', warnings: [] },
    { type: 'text-start', id: '0' },
    ...DELTAS,
    { type: 'text-end', id: '0' },
    {
      type: 'tool-call',
      toolCallId: `call_${promptLength}`,
      toolName: WORK_TOOL.name,
      input: JSON.stringify({ query: 'error', page: promptLength }),
    },
    {
      type: 'finish',
      finishReason: { unified: 'tool-calls', raw: 'tool_calls' },
      usage: {
        inputTokens: { total: 100, noCache: 100, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 100, text: 100, reasoning: 0 },
      },
    },
  ];
}

const DELTAS = Array.from(
  { length: DELTAS_PER_STEP },
  (_, at): ModelStreamPart => ({ type: 'text-delta', id: '0', delta: `these are ${String(at).padStart(2)} words, ` }),
);

const TOOLS: ToolSet = {
  [WORK_TOOL.name]: tool({
    description: WORK_TOOL.description,
    inputSchema: jsonSchema(WORK_TOOL.inputSchema),
    execute: WORK_TOOL.execute,
  }),
};

const MODEL = createWorkModel();

/** What a step has to keep: what it adds to the conversation (the assistant's text and call, the tool's result). */
export type StepResult = Readonly<{ messages: ModelMessage[]; deltas: number; toolResults: number }>;

/**
 * One step as an AI SDK program makes it: a model call that streams, the tool call it asks for, nothing persisted.
 * @param history what the model is shown: `FIRST_MESSAGE` and the messages of the steps before
 * @throws Error if the step was not the one that everybody has to do
 */
export async function runModelStep(history: readonly ModelMessage[]): Promise<StepResult> {
  let deltas = 0;
  let toolResults = 0;
  const result = streamText({
    model: MODEL,
    messages: [...history],
    tools: TOOLS,
    stopWhen: isStepCount(1),
    maxRetries: 0,
    onError: () => undefined,
  });
  for await (const part of result.stream) {
    if (part.type === 'text-delta') deltas++;
    if (part.type === 'tool-result') toolResults++;
    if (part.type === 'error') throw part.error;
  }
  if (deltas !== DELTAS_PER_STEP || toolResults !== 1) {
    throw new Error(`a step had ${deltas} deltas and ${toolResults} tool results`);
  }
  return { messages: await result.responseMessages, deltas, toolResults };
}
