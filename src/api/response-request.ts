import { z } from 'zod';
import { listOf } from '../domain/bounded-list.ts';
import { MAX_COMPACTION_CHARS, MAX_CONVERSATION_MESSAGES, MAX_MESSAGE_PARTS } from '../domain/tunables.ts';
import { completionRequestSchema } from './completion-request.ts';
import { IGNORED_PARAMETERS, NEUTRAL_PARAMETERS } from './neutral-parameters.ts';

/** Every field is checked as one of a chat completion, into which it is translated. */
const content = z.union([z.string(), listOf(z.looseObject({ type: z.string() }), MAX_MESSAGE_PARTS)], {
  error: 'a text, or parts',
});
export type Content = z.infer<typeof content>;
const id = z.string().max(1_000);

const ITEMS = [
  z.strictObject({
    type: z.literal('message'),
    role: z.enum(['user', 'assistant', 'system', 'developer']),
    content,
    id: id.nullish(),
    status: z.string().nullish(),
    phase: z.string().nullish(),
  }),
  z.looseObject({ type: z.literal('function_call'), call_id: id, name: id, arguments: z.string() }),
  z.looseObject({ type: z.literal('function_call_output'), call_id: id, output: content }),
  /** Of another service: Baton tells no reasoning here. */
  z.looseObject({ type: z.literal('reasoning') }),
  z.strictObject({ type: z.literal('item_reference'), id }),
  /** All that came before it, as `POST /v1/responses/compact` has answered. */
  z.looseObject({
    type: z.literal('compaction'),
    encrypted_content: z.string().max(MAX_COMPACTION_CHARS),
    id: id.nullish(),
  }),
] as const;

/** A message may leave out its type. */
const withType = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'role' in value && !('type' in value)
    ? { ...value, type: 'message' }
    : value;
const item = z.preprocess(withType, z.discriminatedUnion('type', ITEMS));
export type InputItem = z.infer<typeof item>;

const functionTool = z.strictObject({
  type: z.literal('function', { error: 'only "function" is possible here: the agent has tools of its own' }),
  name: z.string(),
  description: z.string().nullish(),
  parameters: z.looseObject({}).nullish(),
  strict: z.boolean().nullish(),
});

const namedFunction = z.strictObject({ type: z.literal('function'), name: id });

const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    name: z.string(),
    description: z.string().nullish(),
    schema: z.looseObject({}),
    strict: z.boolean().nullish(),
  }),
]);

export type TextFormat = z.infer<typeof format>;

const fields = completionRequestSchema.shape;

/** https://platform.openai.com/docs/api-reference/responses/create */
export const responseRequestSchema = z.strictObject({
  model: fields.model,
  input: z.union([z.string(), listOf(item, MAX_CONVERSATION_MESSAGES).min(1)], { error: 'a text, or a list of items' }),
  instructions: z.string().nullish(),
  previous_response_id: id.nullish(),
  conversation: z.union([id.min(1), z.strictObject({ id: id.min(1) })], { error: 'a name, or {id}' }).nullish(),
  background: z.boolean().nullish(),
  stream: fields.stream,
  stream_options: z.strictObject({ include_obfuscation: z.boolean().nullish() }).nullish(),
  text: z.strictObject({ format: format.nullish(), verbosity: NEUTRAL_PARAMETERS.verbosity }).nullish(),
  tools: listOf(functionTool, 128).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['auto', 'none', 'required']),
        namedFunction,
        z.strictObject({
          type: z.literal('allowed_tools'),
          mode: z.enum(['auto', 'required']),
          tools: listOf(namedFunction, 128).min(1),
        }),
      ],
      { error: '"auto", "none", "required", a function by its name, or allowed_tools' },
    )
    .nullish(),
  reasoning: z
    .strictObject({
      effort: fields.reasoning_effort,
      summary: z.string().nullish(),
      generate_summary: z.string().nullish(),
    })
    .nullish(),
  max_output_tokens: fields.max_completion_tokens,
  max_tool_calls: z.null({ error: 'not possible here: the agent’s limits hold' }).optional(),
  temperature: fields.temperature,
  top_p: fields.top_p,
  top_logprobs: NEUTRAL_PARAMETERS.top_logprobs,
  presence_penalty: NEUTRAL_PARAMETERS.presence_penalty,
  frequency_penalty: NEUTRAL_PARAMETERS.frequency_penalty,
  parallel_tool_calls: NEUTRAL_PARAMETERS.parallel_tool_calls,
  prompt: z.null({ error: 'not possible here' }).optional(),
  /** The agent's compaction keeps a conversation within its window. */
  truncation: z.enum(['auto', 'disabled']).nullish(),
  include: listOf(z.string(), 20).nullish(),
  user: fields.user,
  safety_identifier: fields.safety_identifier,
  ...IGNORED_PARAMETERS,
});
export type ResponseRequest = z.infer<typeof responseRequestSchema>;

/** https://platform.openai.com/docs/api-reference/responses/input-tokens */
export const inputTokensSchema = responseRequestSchema
  .pick({
    model: true,
    instructions: true,
    previous_response_id: true,
    conversation: true,
    text: true,
    tools: true,
    tool_choice: true,
    reasoning: true,
    parallel_tool_calls: true,
    truncation: true,
    user: true,
    safety_identifier: true,
  })
  .extend({ input: responseRequestSchema.shape.input.nullish() });
export type InputTokensRequest = z.infer<typeof inputTokensSchema>;

/**
 * Fields that do not change a compaction are taken, because clients send those of their requests.
 * https://platform.openai.com/docs/api-reference/responses/compact
 */
export const compactSchema = inputTokensSchema.extend({ ...IGNORED_PARAMETERS, image: z.looseObject({}).nullish() });
export type CompactRequest = z.infer<typeof compactSchema>;
