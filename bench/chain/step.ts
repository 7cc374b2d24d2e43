import { dynamicTool, isStepCount, jsonSchema, type LanguageModel, type ModelMessage, streamText } from 'ai';
import { createChainModel } from './model.ts';
import { DELTAS_PER_STEP, taskText } from './task.ts';
import { look, TOOL_DESCRIPTION, TOOL_SCHEMA } from './tool.ts';

type CallOptions = Pick<Parameters<typeof streamText>[0], 'providerOptions'>;

/** The model that answers, and the number of its deltas. */
export type Answering = Readonly<{
  model: LanguageModel;
  providerOptions?: CallOptions['providerOptions'];
  deltas: number;
  onDelta?: () => void;
}>;

const IN_THIS_PROCESS: Answering = { model: createChainModel(), deltas: DELTAS_PER_STEP };

/** The first message of a session with this many steps. */
export const firstMessage = (steps: number): ModelMessage => ({ role: 'user', content: taskText({ steps }) });

/**
 * One step as an AI SDK program makes it: a streamed model call and its tool call, nothing persisted. Every contestant
 * does this work in each of its steps.
 * @param history the first message, and the messages that earlier steps have added
 * @param answering default: the model in this process
 * @returns the step's messages: the assistant's text and call, and the tool's result
 * @throws Error if the step differs from the one that every contestant must do
 */
export async function runModelStep(
  history: readonly ModelMessage[],
  { model, providerOptions, deltas: expected, onDelta }: Answering = IN_THIS_PROCESS,
): Promise<ModelMessage[]> {
  const result = streamText({
    model,
    messages: [...history],
    tools: {
      look: dynamicTool({
        description: TOOL_DESCRIPTION,
        inputSchema: jsonSchema(TOOL_SCHEMA),
        execute: look,
      }),
    },
    ...(providerOptions !== undefined && { providerOptions }),
    stopWhen: isStepCount(1),
    maxRetries: 0,
    onError: () => undefined,
  });
  let deltas = 0;
  for await (const part of result.stream) {
    if (part.type === 'text-delta') {
      deltas++;
      onDelta?.();
    }
    if (part.type === 'error') throw part.error;
  }
  if (deltas !== expected) throw new Error(`a step had ${deltas} deltas`);
  return result.responseMessages;
}
