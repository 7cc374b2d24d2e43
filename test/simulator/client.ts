import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import {
  type Instructions,
  isStepCount,
  type LanguageModel,
  type ModelMessage,
  streamText,
  type TextStreamPart,
  type ToolSet,
  tool,
} from 'ai';
import { z } from 'zod';
import type { Protocol } from '../../simulator/request.ts';

export const PROTOCOLS: readonly Protocol[] = ['responses', 'chat', 'messages'];

globalThis.AI_SDK_LOG_WARNINGS = false;

/** Tools without `execute`: a step ends with its calls. */
export const TOOLS: ToolSet = {
  add: tool({ description: 'Adds.', inputSchema: z.object({ a: z.number(), b: z.number() }) }),
  look: tool({ description: 'Looks.', inputSchema: z.object({ path: z.string() }) }),
};

type StepOptions = Readonly<{
  model?: string;
  messages?: ModelMessage[];
  instructions?: Instructions;
  tools?: ToolSet;
  cacheKey?: string;
  signal?: AbortSignal;
  maxOutputTokens?: number;
  onPart?: (part: TextStreamPart<ToolSet>) => void;
}>;

function target(url: string, protocol: Protocol, { model: id = 'm', cacheKey }: StepOptions) {
  const baseURL = `${url}/v1`;
  const openai = createOpenAI({ baseURL, apiKey: 'none' });
  const promptCacheKey = cacheKey === undefined ? {} : { promptCacheKey: cacheKey };
  const targets = {
    responses: () => ({
      model: openai(id),
      providerOptions: { openai: { store: false, include: ['reasoning.encrypted_content'], ...promptCacheKey } },
    }),
    chat: () => ({ model: openai.chat(id), providerOptions: { openai: promptCacheKey } }),
    messages: () => ({
      model: createAnthropic({ baseURL, apiKey: 'none' })(id),
      providerOptions: { anthropic: cacheKey === undefined ? {} : { metadata: { userId: cacheKey } } },
    }),
  } satisfies Record<Protocol, () => { model: LanguageModel; providerOptions: object }>;
  return targets[protocol]();
}

/** One step through the real provider package, with everything its stream brought. */
export async function runStep(url: string, protocol: Protocol, options: StepOptions = {}) {
  const result = streamText({
    ...target(url, protocol, options),
    messages: options.messages ?? [{ role: 'user', content: 'Hello' }],
    instructions: options.instructions ?? 'You are brief.',
    stopWhen: isStepCount(1),
    maxRetries: 0,
    tools: options.tools ?? TOOLS,
    onError: () => {},
    ...(options.signal !== undefined && { abortSignal: options.signal }),
    ...(options.maxOutputTokens !== undefined && { maxOutputTokens: options.maxOutputTokens }),
  });
  const parts: TextStreamPart<ToolSet>[] = [];
  for await (const part of result.stream) {
    parts.push(part);
    options.onPart?.(part);
  }
  const ofType = <T extends TextStreamPart<ToolSet>['type']>(type: T) =>
    parts.filter((part): part is Extract<TextStreamPart<ToolSet>, { type: T }> => part.type === type);
  return {
    parts,
    ofType,
    text: ofType('text-delta')
      .map((part) => part.text)
      .join(''),
    reasoning: ofType('reasoning-delta')
      .map((part) => part.text)
      .join(''),
    calls: ofType('tool-call').map(({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input })),
    error: ofType('error')[0]?.error,
    finish: ofType('finish-step')[0],
    /** The step's messages; only for steps that ended well. */
    messages: async () => (await result.responseMessages) as ModelMessage[],
  };
}

/** Posts a raw body as another client would. */
export async function post(url: string, protocol: Protocol, body: unknown): Promise<Response> {
  return fetch(`${url}/v1/${protocol === 'chat' ? 'chat/completions' : protocol}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}
