import {
  type AssistantContent,
  dynamicTool,
  isStepCount,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  streamText,
  type ToolCallPart,
} from 'ai';
import { createChainModel } from './model.ts';
import { DELTAS_PER_STEP, taskText } from './task.ts';
import { look, TOOL_DESCRIPTION, TOOL_SCHEMA } from './tool.ts';

type Tools = NonNullable<Parameters<typeof streamText>[0]['tools']>;
type CallOptions = Pick<Parameters<typeof streamText>[0], 'providerOptions'>;

/** The model that answers, and the number of its deltas. */
export type Answering = Readonly<{
  model: LanguageModel;
  providerOptions?: CallOptions['providerOptions'];
  deltas: number;
  onDelta?: (text: string) => void;
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
export function runModelStep(
  history: readonly ModelMessage[],
  answering: Answering = IN_THIS_PROCESS,
): Promise<ModelMessage[]> {
  const tool = dynamicTool({ description: TOOL_DESCRIPTION, inputSchema: jsonSchema(TOOL_SCHEMA), execute: look });
  return streamStep(history, tool, answering);
}

/** The same step by the one model call that `streamText` makes, without its loop. */
export async function runSingleCall(history: readonly ModelMessage[]): Promise<ModelMessage[]> {
  const { model, deltas: expected } = IN_THIS_PROCESS;
  const tool = dynamicTool({ description: TOOL_DESCRIPTION, inputSchema: jsonSchema(TOOL_SCHEMA), execute: look });
  const { stream } = await streamLanguageModelCall({ model, messages: [...history], tools: { look: tool } });
  let [text, deltas] = ['', 0];
  const calls: ToolCallPart[] = [];
  for await (const part of stream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'tool-call') calls.push(part);
    if (part.type !== 'text-delta') continue;
    deltas++;
    text += part.text;
  }
  if (deltas !== expected) throw new Error(`a step had ${deltas} deltas`);
  const content: Exclude<AssistantContent, string> = text === '' ? calls : [{ type: 'text', text }, ...calls];
  const response: ModelMessage[] = [{ role: 'assistant', content }];
  return [...response, ...(await callTools(response))];
}

/**
 * The model call of a step alone: its calls are returned, not run.
 * @param onText gets each piece of text as it comes
 * @returns the assistant's message
 * @throws Error if the answer differs from the one that every contestant must get
 */
export function askModel(history: readonly ModelMessage[], onText: (text: string) => void): Promise<ModelMessage[]> {
  // The AI SDK leaves calls of a tool that cannot be executed to its caller.
  const { execute: _, ...tool } = dynamicTool({
    description: TOOL_DESCRIPTION,
    inputSchema: jsonSchema(TOOL_SCHEMA),
    execute: look,
  });
  return streamStep(history, tool, { ...IN_THIS_PROCESS, onDelta: onText });
}

/** Runs the calls of a response; returns the message with their results, or none if it has no calls. */
export async function callTools(response: readonly ModelMessage[]): Promise<ModelMessage[]> {
  const results = callsOf(response).map(async ({ toolCallId, toolName, input }) => ({
    type: 'tool-result' as const,
    toolCallId,
    toolName,
    output: { type: 'text' as const, value: await look(input) },
  }));
  return results.length === 0 ? [] : [{ role: 'tool', content: await Promise.all(results) }];
}

export const hasCalls = (response: readonly ModelMessage[]): boolean => callsOf(response).length > 0;

const callsOf = (response: readonly ModelMessage[]): ToolCallPart[] =>
  response.flatMap(({ role, content }) =>
    role === 'assistant' && typeof content !== 'string' ? content.filter((part) => part.type === 'tool-call') : [],
  );

async function streamStep(
  history: readonly ModelMessage[],
  tool: Tools[string],
  { model, providerOptions, deltas: expected, onDelta }: Answering,
): Promise<ModelMessage[]> {
  const result = streamText({
    model,
    messages: [...history],
    tools: { look: tool },
    ...(providerOptions !== undefined && { providerOptions }),
    stopWhen: isStepCount(1),
    maxRetries: 0,
    onError: () => undefined,
  });
  let deltas = 0;
  for await (const part of result.stream) {
    if (part.type === 'text-delta') {
      deltas++;
      onDelta?.(part.text);
    }
    if (part.type === 'error') throw part.error;
  }
  if (deltas !== expected) throw new Error(`a step had ${deltas} deltas`);
  return result.responseMessages;
}
