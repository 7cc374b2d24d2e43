import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, type ModelMessage } from 'ai';
import { z } from 'zod';
import { CACHE_BREAKPOINT } from '../../src/domain/model/cache-breakpoints.ts';

globalThis.AI_SDK_LOG_WARNINGS = false;

const chatReply = {
  id: 'chatcmpl-1',
  created: 1,
  model: 'gpt-5',
  choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const responsesReply = {
  id: 'resp_1',
  created_at: 1,
  model: 'gpt-5',
  output: [
    {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'ok', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1 },
};

const messagesReply = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content: [{ type: 'text', text: 'ok' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
};

const bodySchema = z.looseObject({
  store: z.boolean().optional(),
  messages: z.array(z.unknown()).optional(),
  input: z.array(z.unknown()).optional(),
});

/**
 * The body that the real provider package sends for these messages. Its conversion may refuse them: then this rejects.
 */
export async function wireBody(
  api: 'chat' | 'responses',
  messages: ModelMessage[],
): Promise<z.infer<typeof bodySchema>> {
  const bodies: unknown[] = [];
  const provider = createOpenAI({
    apiKey: 'none',
    fetch: async (_url, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      return Response.json(api === 'chat' ? chatReply : responsesReply);
    },
  });
  await generateText({
    model: api === 'chat' ? provider.chat('gpt-5') : provider.responses('gpt-5'),
    messages,
    maxRetries: 0,
    providerOptions: { openai: { store: false } },
  });
  return bodySchema.parse(bodies[0]);
}

/** The same for the Messages API, as its provider is asked: with instructions that are marked for the cache. */
export async function messagesBody(modelId: string, messages: ModelMessage[]): Promise<unknown> {
  const bodies: unknown[] = [];
  const provider = createAnthropic({
    apiKey: 'none',
    fetch: async (_url, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      return Response.json(messagesReply);
    },
  });
  await generateText({
    model: provider(modelId),
    instructions: { role: 'system', content: 'Be brief.', providerOptions: CACHE_BREAKPOINT },
    messages,
    maxRetries: 0,
    providerOptions: { anthropic: { thinking: { blockBinding: { prefixMismatchBehavior: 'drop_block' } } } },
  });
  return bodies[0];
}
