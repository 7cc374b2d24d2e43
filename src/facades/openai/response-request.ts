import { z } from 'zod';
import { listOf } from '../../domain/bounded-list.ts';
import { MAX_CONVERSATION_MESSAGES, MAX_MESSAGE_PARTS } from '../../domain/tunables.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';
import { type CompletionRequest, completionRequestSchema } from './completion-request.ts';
import { IGNORED_PARAMETERS, NEUTRAL_PARAMETERS } from './neutral-parameters.ts';

/** Every field is checked as one of a chat completion, into which it is translated. */
const content = z.union([z.string(), listOf(z.looseObject({ type: z.string() }), MAX_MESSAGE_PARTS)], {
  error: 'a text, or parts',
});
type Content = z.infer<typeof content>;
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
    .union([z.enum(['auto', 'none', 'required']), z.strictObject({ type: z.literal('function'), name: id })], {
      error: '"auto", "none", "required", or a function by its name',
    })
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

/** The field here that a field of a chat completion stands for. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  messages: ['input'],
  response_format: ['text', 'format'],
  reasoning_effort: ['reasoning', 'effort'],
  max_completion_tokens: ['max_output_tokens'],
};

/**
 * The same request as a chat completion.
 * @param items its input, without the items that only refer to earlier ones
 * @throws ProblemError `invalid_request` that names the field of this request
 */
export function toCompletionRequest(body: ResponseRequest, items: readonly InputItem[]): CompletionRequest {
  const { instructions, tools, tool_choice: choice, text, reasoning } = body;
  const messages = [
    ...(instructions == null ? [] : [{ role: 'system', content: instructions }]),
    ...items.reduce(addMessage, []),
  ];
  const parsed = completionRequestSchema.safeParse({
    model: body.model,
    messages,
    temperature: body.temperature,
    top_p: body.top_p,
    max_completion_tokens: body.max_output_tokens,
    reasoning_effort: reasoning?.effort,
    tools: tools?.map(({ type, ...definition }) => ({ type, function: definition })),
    tool_choice:
      typeof choice === 'object' && choice !== null ? { type: choice.type, function: { name: choice.name } } : choice,
    response_format: toResponseFormat(text?.format),
    user: body.user,
    safety_identifier: body.safety_identifier,
  });
  const issues = parsed.error?.issues.map((issue) => {
    const [field, ...rest] = issue.path;
    const renamed = FIELDS[String(field)];
    // A message of the completion has another number than the item from which it was made.
    return renamed === undefined
      ? issue
      : { ...issue, path: field === 'messages' ? [...renamed] : [...renamed, ...rest] };
  });
  refuseInvalid({ target: 'json', success: parsed.success, ...(issues !== undefined && { error: { issues } }) });
  if (parsed.data === undefined) throw new Error('an invalid request was not refused');
  return parsed.data;
}

function toResponseFormat(textFormat: z.infer<typeof format> | null | undefined) {
  if (textFormat?.type !== 'json_schema') return textFormat;
  const { type, ...schema } = textFormat;
  return { type, json_schema: schema };
}

type Message = Readonly<{ role: string; content?: unknown; tool_calls?: readonly object[]; tool_call_id?: string }>;

/** Text and calls of one answer are items of their own here, and one message there. */
function addMessage(messages: readonly Message[], input: InputItem): Message[] {
  const last = messages.at(-1);
  switch (input.type) {
    case 'message':
      return [...messages, { role: input.role, content: toContent(input.content) }];
    case 'function_call': {
      const call = { id: input.call_id, type: 'function', function: { name: input.name, arguments: input.arguments } };
      if (last?.role !== 'assistant') return [...messages, { role: 'assistant', tool_calls: [call] }];
      return [...messages.slice(0, -1), { ...last, tool_calls: [...(last.tool_calls ?? []), call] }];
    }
    case 'function_call_output':
      return [...messages, { role: 'tool', tool_call_id: input.call_id, content: toContent(input.output) }];
    default:
      return [...messages];
  }
}

function toContent(parts: Content): unknown {
  if (typeof parts === 'string') return parts;
  return parts.map((part) => {
    const { type, text, image_url: url, detail, refusal, file_data: data, filename } = part;
    switch (type) {
      case 'input_text':
      case 'output_text':
        return { type: 'text', text };
      case 'refusal':
        return { type: 'text', text: refusal };
      case 'input_image':
        return { type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } };
      case 'input_file':
        return { type: 'file', file: { file_data: data, ...(filename !== undefined && { filename }) } };
      default:
        return part;
    }
  });
}
