import { z } from 'zod';
import { type Agent, agentSchema } from '../../agents/agent.ts';
import { type ConversationMessage, parseArgs } from '../../domain/conversation.ts';
import { BatonError } from '../../domain/errors.ts';
import { isWithinJsonDepth, MAX_JSON_DEPTH } from '../../domain/json-depth.ts';

const textPart = z.strictObject({ type: z.literal('text'), text: z.string() });
const content = z.union([z.string(), z.array(textPart)], { error: 'a text, or parts of type text' });
const name = z.string().optional();

const calls = z.array(
  z.looseObject({
    id: z.string(),
    type: z.literal('function'),
    function: z.looseObject({ name: z.string(), arguments: z.string() }),
  }),
);

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer']), content, name }),
  z.strictObject({ role: z.literal('user'), content, name }),
  // Clients send back what they were given, with fields that are of no use here.
  z.looseObject({ role: z.literal('assistant'), content: content.nullish(), tool_calls: calls.nullish() }),
  z.strictObject({ role: z.literal('tool'), content, tool_call_id: z.string() }),
]);

const parameters = z
  .looseObject({ type: z.literal('object') })
  .refine(isWithinJsonDepth, { error: `at most ${MAX_JSON_DEPTH} levels deep` });

const tool = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'letters, digits, - and _, at most 64'),
    description: z.string().optional(),
    parameters: parameters.optional(),
    strict: z.boolean().nullish(),
  }),
});

const positive = z.int().positive();
/** What would change the answer and cannot be done here is refused by its name; only what asks for nothing passes. */
const only = <Value extends string | number | boolean>(value: Value) =>
  z.literal(value, { error: `only ${JSON.stringify(value)} is possible here` }).nullish();

/** https://platform.openai.com/docs/api-reference/chat/create */
export const completionRequestSchema = z.strictObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() })
    .nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  max_tokens: positive.nullish(),
  max_completion_tokens: positive.nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: z.enum(['auto', 'none'], { error: 'only "auto" and "none" are possible here' }).nullish(),
  response_format: z.strictObject({ type: only('text') }).nullish(),
  n: only(1),
  top_p: only(1),
  presence_penalty: only(0),
  frequency_penalty: only(0),
  logprobs: only(false),
  parallel_tool_calls: only(true),
  /** Whom the conversation is with. */
  user: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  /** Nothing is made of these. */
  metadata: z.record(z.string(), z.string()).nullish(),
  store: z.boolean().nullish(),
  service_tier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
});
export type CompletionRequest = z.infer<typeof completionRequestSchema>;

const textOf = (given: z.infer<typeof content> | null | undefined): string =>
  typeof given === 'string' ? given : (given ?? []).map(({ text }) => text).join('');

/** The conversation without what belongs to the agent. */
export function conversationOf({ messages }: CompletionRequest): ConversationMessage[] {
  return messages.flatMap((given): ConversationMessage[] => {
    switch (given.role) {
      case 'user':
        return [{ role: 'user', text: textOf(given.content) }];
      case 'tool':
        return [{ role: 'tool', text: textOf(given.content), callId: given.tool_call_id }];
      case 'assistant':
        return [
          {
            role: 'assistant',
            text: textOf(given.content),
            calls: (given.tool_calls ?? []).map((call) => ({
              id: call.id,
              name: call.function.name,
              args: call.function.arguments,
            })),
          },
        ];
      default:
        return [];
    }
  });
}

/**
 * Whose conversation it is: the same messages under other instructions, or with another user, are another conversation.
 */
export function ownerOf({ messages, user, safety_identifier: safety }: CompletionRequest): readonly unknown[] {
  const said = instructionsOf(messages).map((text) => text.trim());
  return [said, user ?? null, safety ?? null];
}

const instructionsOf = (messages: CompletionRequest['messages']): string[] =>
  messages.flatMap((given) => (given.role === 'system' || given.role === 'developer' ? [textOf(given.content)] : []));

/**
 * The agent as a request wants it: with its instructions after the agent's own, its tools as tools of the client, and its
 * settings.
 * @param base as `agentSchema`
 */
export function agentFor(request: CompletionRequest, base: unknown): Agent {
  const parsed = agentSchema.safeParse(base);
  if (!parsed.success) throw new BatonError('config_invalid', 'the agent of the session cannot be read');
  const agent = parsed.data;
  const said = instructionsOf(request.messages);
  const offered = request.tool_choice === 'none' ? [] : (request.tools ?? []);
  const maxOutputTokens = request.max_completion_tokens ?? request.max_tokens ?? agent.settings.maxOutputTokens;
  const temperature = request.temperature ?? agent.settings.temperature;
  // What a session keeps has to be readable by every step of it.
  return agentSchema.parse({
    ...agent,
    instructions: [agent.instructions, ...said].filter((text) => text.trim() !== '').join('\n\n'),
    tools: [...agent.tools, ...offered.map(({ function: given }) => ({ client: clientTool(given) }))],
    settings: {
      ...(temperature !== undefined && { temperature }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    },
  });
}

function clientTool({ name: toolName, description, parameters: inputSchema }: z.infer<typeof tool>['function']) {
  return {
    name: toolName,
    description: description === undefined || description === '' ? toolName : description,
    inputSchema: inputSchema ?? { type: 'object' as const },
  };
}

/** The conversation as messages of the AI SDK, which can be imported. */
export function toModelMessages(conversation: readonly ConversationMessage[]): unknown[] {
  const names = new Map<string, string>();
  return conversation.map((given) => {
    if (given.role === 'user') return { role: 'user', content: [{ type: 'text', text: given.text }] };
    if (given.role === 'tool') {
      const toolName = names.get(given.callId) ?? 'tool';
      const output = { type: 'text', value: given.text };
      return { role: 'tool', content: [{ type: 'tool-result', toolCallId: given.callId, toolName, output }] };
    }
    for (const { id, name: toolName } of given.calls) names.set(id, toolName);
    return {
      role: 'assistant',
      content: [
        ...(given.text === '' ? [] : [{ type: 'text', text: given.text }]),
        ...given.calls.map(({ id: toolCallId, name: toolName, args }) => ({
          type: 'tool-call',
          toolCallId,
          toolName,
          input: parseArgs(args) ?? {},
        })),
      ],
    };
  });
}
