import { z } from 'zod';
import { type Agent, agentSchema, readAgent } from '../../agents/agent.ts';
import { listOf } from '../../domain/bounded-list.ts';
import { areJsonTextsBounded, isWithinJsonDepth } from '../../domain/json-bounds.ts';
import { type ModelSettings, modelSettingsSchema } from '../../domain/model/model-settings.ts';
import { schemaBy, toObjectSchema } from '../../domain/object-schema.ts';
import { OUTPUT_NAME, type OutputFormat } from '../../domain/run/output-format.ts';
import { readOutputSchema } from '../../domain/run/output-schema.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import type { OutputItem, UserPart } from '../../domain/transcript/message.ts';
import {
  MAX_CALLS_PER_MESSAGE,
  MAX_CONVERSATION_MESSAGES,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
  MAX_KEPT_OUTPUT_CHARS,
  MAX_MESSAGE_CHARS,
  MAX_MESSAGE_FILES,
  MAX_MESSAGE_PARTS,
} from '../../domain/tunables.ts';
import { IGNORED_PARAMETERS, NEUTRAL_PARAMETERS } from './neutral-parameters.ts';

/** Mark for a provider's cache. The agent's own requests set such marks themselves. */
const breakpoint = z.looseObject({}).nullish();
/** Of ids and names, which no person reads. */
const MAX_WORD_CHARS = 1_000;
const word = z.string().max(MAX_WORD_CHARS);

const charsOf = (texts: readonly string[]): number => texts.reduce((sum, { length }) => sum + length, 0);
const isTextWithin = (maxChars: number) => (parts: readonly Readonly<{ type: string; text?: string }>[]) =>
  charsOf(parts.map(({ text = '' }) => text)) <= maxChars;
const tooLong = (maxChars: number) => ({ error: `at most ${maxChars} characters altogether` });

const textPart = z.strictObject({ type: z.literal('text'), text: z.string(), prompt_cache_breakpoint: breakpoint });
const content = z.union(
  [
    z.string().max(MAX_MESSAGE_CHARS),
    listOf(textPart, MAX_MESSAGE_PARTS).refine(isTextWithin(MAX_MESSAGE_CHARS), tooLong(MAX_MESSAGE_CHARS)),
  ],
  { error: 'a text, or parts of type text' },
);

/** Endings of image URLs. Baton fetches no URL, so the ending decides on the media type. */
const IMAGE_ENDINGS: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};
const endingOf = (url: string): string => /\.(\w+)$/.exec(URL.parse(url)?.pathname ?? '')?.[1]?.toLowerCase() ?? '';
const MAX_URL_CHARS = 8_192;
const isImageUrl = (url: string): boolean =>
  /^data:/i.test(url) || (url.length <= MAX_URL_CHARS && Object.hasOwn(IMAGE_ENDINGS, endingOf(url)));

const imagePart = z.strictObject({
  type: z.literal('image_url'),
  image_url: z.strictObject({
    url: z.string().refine(isImageUrl, 'a data URL, or a URL that ends with .png, .jpg, .gif or .webp'),
    detail: word.nullish(),
  }),
  prompt_cache_breakpoint: breakpoint,
});
const filePart = z.strictObject({
  type: z.literal('file'),
  file: z.strictObject({
    file_data: z.string().regex(/^data:/i, 'a data URL'),
    file_id: z.null({ error: 'not possible here' }).optional(),
    filename: z.string().min(1).max(255).nullish(),
  }),
  prompt_cache_breakpoint: breakpoint,
});
const withFiles = (minParts: number, maxChars: number) =>
  z.union(
    [
      z.string().max(maxChars),
      listOf(z.discriminatedUnion('type', [textPart, imagePart, filePart]), MAX_MESSAGE_PARTS)
        .min(minParts)
        .refine(isTextWithin(maxChars), tooLong(maxChars))
        .refine((parts) => parts.filter(({ type }) => type !== 'text').length <= MAX_MESSAGE_FILES, {
          error: `at most ${MAX_MESSAGE_FILES} files`,
        }),
    ],
    {
      error:
        'a text, or parts of type text, image_url (a data URL, or one that ends with .png, .jpg, .gif or .webp) and file (file_data)',
    },
  );
const name = word.nullish();

const calls = listOf(
  z.looseObject({
    id: word,
    type: z.literal('function'),
    function: z.looseObject({ name: word, arguments: z.string() }),
  }),
  MAX_CALLS_PER_MESSAGE,
).refine((list) => charsOf(list.map((call) => call.function.arguments)) <= MAX_MESSAGE_CHARS, {
  error: `at most ${MAX_MESSAGE_CHARS} characters of arguments altogether`,
});

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer']), content, name }),
  z.strictObject({ role: z.literal('user'), content: withFiles(1, MAX_MESSAGE_CHARS), name }),
  // Clients send back whole messages of the assistant, with fields that are of no use here.
  z.looseObject({ role: z.literal('assistant'), content: content.nullish(), tool_calls: calls.nullish() }),
  // OpenAI takes only texts there; other services with its API also take files.
  z.strictObject({ role: z.literal('tool'), content: withFiles(0, MAX_KEPT_OUTPUT_CHARS), tool_call_id: word, name }),
]);

/** Of any shape for zod, which would move the keys of an object. */
const schema = z.unknown().meta({ type: 'object' });
const parameters = schema
  .refine(isWithinJsonDepth, { error: `at most ${MAX_JSON_DEPTH} levels deep` })
  .transform(schemaBy(toObjectSchema));

const tool = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'letters, digits, - and _, at most 64'),
    description: z.string().nullish(),
    parameters: parameters.nullish(),
    strict: z.boolean().nullish(),
  }),
});

/** Every form but `allowed_tools`. */
const toolChoice = z.union(
  [
    z.enum(['auto', 'none', 'required']),
    z.strictObject({ type: z.literal('function'), function: z.strictObject({ name: word }) }),
  ],
  { error: '"auto", "none", "required", or a function by its name' },
);

const responseFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: z.string().regex(OUTPUT_NAME, 'letters, digits, - and _, at most 64'),
      description: z.string().max(MAX_MESSAGE_CHARS).nullish(),
      schema: schema.transform(schemaBy(readOutputSchema)),
      strict: z.boolean().nullish(),
    }),
  }),
]);

/** Of the tools of a request. Its session keeps them. */
const MAX_TOOLS_CHARS = 500_000;

const positive = z.int().positive();
const stopSequence = z.string().min(1).max(200);

/** https://platform.openai.com/docs/api-reference/chat/create */
export const completionRequestSchema = z.strictObject({
  model: word.min(1),
  messages: listOf(message, MAX_CONVERSATION_MESSAGES)
    .min(1)
    .refine((messages) => charsOf(instructionsOf(messages)) <= MAX_MESSAGE_CHARS, {
      error: `at most ${MAX_MESSAGE_CHARS} characters of instructions altogether`,
    })
    .refine((messages) => areJsonTextsBounded(argumentsOf(messages)), {
      error: `at most ${MAX_JSON_VALUES} JSON values in the arguments of all calls, and ${MAX_JSON_DEPTH} levels`,
    }),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .nullish(),
  temperature: modelSettingsSchema.shape.temperature.nullable(),
  top_p: modelSettingsSchema.shape.topP.nullable(),
  seed: modelSettingsSchema.shape.seed.nullable(),
  stop: z.union([stopSequence, z.array(stopSequence).max(4)], { error: 'a text, or up to 4' }).nullish(),
  reasoning_effort: modelSettingsSchema.shape.reasoning.nullable(),
  max_tokens: positive.nullish(),
  max_completion_tokens: positive.nullish(),
  tools: listOf(tool, 128)
    .refine((tools) => charsOf([JSON.stringify(tools)]) <= MAX_TOOLS_CHARS, {
      error: `at most ${MAX_TOOLS_CHARS} characters as JSON altogether`,
    })
    .nullish(),
  tool_choice: toolChoice.nullish(),
  response_format: responseFormat.nullish(),
  /** The client's own user. Part of the conversation's owner. */
  user: word.nullish(),
  safety_identifier: word.nullish(),
  ...NEUTRAL_PARAMETERS,
  ...IGNORED_PARAMETERS,
});
export type CompletionRequest = z.infer<typeof completionRequestSchema>;

/** Why its choice of tools cannot be made. Null: it can. */
export function toolChoiceProblem({ tool_choice: choice, tools }: CompletionRequest): string | null {
  if (choice == null || choice === 'auto' || choice === 'none') return null;
  const names = (tools ?? []).map(({ function: { name: toolName } }) => toolName);
  if (choice === 'required') return names.length > 0 ? null : 'needs tools';
  return names.includes(choice.function.name) ? null : 'names no tool of this request';
}

const textOf = (texts: z.infer<typeof content> | null | undefined): string =>
  typeof texts === 'string' ? texts : (texts ?? []).map(({ text }) => text).join('');

export function partsOf({ parts, text }: Extract<ConversationMessage, { role: 'user' }>): readonly UserPart[] {
  return parts ?? [{ type: 'text', text }];
}

type ContentWithFiles = z.infer<ReturnType<typeof withFiles>>;

/** The text of a content, and its parts if it has files. */
function textAndPartsOf(parts: ContentWithFiles): Readonly<{ text: string; parts?: readonly OutputItem[] }> {
  if (typeof parts === 'string') return { text: parts };
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part] : []));
  const text = textOf(texts);
  return texts.length === parts.length ? { text } : { text, parts: parts.map(toPart) };
}

function toPart(part: Exclude<ContentWithFiles, string>[number]): OutputItem {
  if (part.type === 'text') return { type: part.type, text: part.text };
  if (part.type === 'image_url') {
    const { url } = part.image_url;
    return { type: 'file', url, mediaType: IMAGE_ENDINGS[/^data:/i.test(url) ? '' : endingOf(url)] ?? '' };
  }
  const { file_data: url, filename } = part.file;
  return { type: 'file', url, mediaType: '', ...(filename != null && { filename }) };
}

/** The conversation without the instructions, which belong to the agent. */
export function conversationOf({ messages }: CompletionRequest): ConversationMessage[] {
  return messages.flatMap((item): ConversationMessage[] => {
    switch (item.role) {
      case 'user':
        return [{ role: 'user', ...textAndPartsOf(item.content) }];
      case 'tool':
        return [{ role: 'tool', ...textAndPartsOf(item.content), callId: item.tool_call_id }];
      case 'assistant':
        return [
          {
            role: 'assistant',
            text: textOf(item.content),
            calls: (item.tool_calls ?? []).map((call) => ({
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

/** The owner of a conversation: the same messages with other instructions or another user are another conversation. */
export function ownerOf({ messages, user, safety_identifier: safety }: CompletionRequest): readonly unknown[] {
  const instructions = instructionsOf(messages).map((text) => text.trim());
  return [instructions, user ?? null, safety ?? null];
}

const instructionsOf = (messages: readonly z.infer<typeof message>[]): string[] =>
  messages.flatMap((item) => (item.role === 'system' || item.role === 'developer' ? [textOf(item.content)] : []));

const argumentsOf = (messages: readonly z.infer<typeof message>[]): string[] =>
  messages.flatMap((item) =>
    item.role === 'assistant' ? (item.tool_calls ?? []).map((call) => call.function.arguments) : [],
  );

/** The model settings of a request. Null, and an empty `stop`, set nothing. */
export function settingsOf(request: CompletionRequest): ModelSettings {
  const stop = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []);
  const maxOutputTokens = request.max_completion_tokens ?? request.max_tokens;
  return {
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { topP: request.top_p }),
    ...(request.seed != null && { seed: request.seed }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(request.reasoning_effort != null && { reasoning: request.reasoning_effort }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
  };
}

/** The name of each setting in this API. */
export const SETTING_PARAMETERS: Readonly<Record<string, keyof CompletionRequest>> = {
  temperature: 'temperature',
  topP: 'top_p',
  seed: 'seed',
  stopSequences: 'stop',
  reasoning: 'reasoning_effort',
  maxOutputTokens: 'max_completion_tokens',
} satisfies Partial<Record<keyof ModelSettings, keyof CompletionRequest>>;

/** The result that the request asks for. Undefined: a text. */
export function outputOf({ response_format: format }: CompletionRequest): OutputFormat | undefined {
  if (format == null) return undefined;
  if ('json_schema' in format) return { schema: format.json_schema.schema, name: format.json_schema.name };
  return format.type === 'json_object' ? { schema: { type: 'object' } } : undefined;
}

/** The choice of tools that the request forces. Undefined: the model decides. */
function forcedChoice({ tool_choice: choice }: CompletionRequest): Agent['toolChoice'] {
  if (choice == null || choice === 'auto' || choice === 'none') return undefined;
  return choice === 'required' ? choice : { tool: choice.function.name };
}

/**
 * The agent with the request's settings, its instructions after the agent's own, and its tools as tools of the client.
 * @param base as `agentSchema`
 * @throws BatonError `config_invalid` if the result is invalid
 */
export function agentFor(request: CompletionRequest, base: unknown): Agent {
  const agent = readAgent(base);
  const instructions = instructionsOf(request.messages);
  const offered = request.tool_choice === 'none' ? [] : (request.tools ?? []);
  // Parsed, because every later step of the session has to read it.
  return agentSchema.parse({
    ...agent,
    instructions: [agent.instructions, ...instructions].filter((text) => text.trim() !== '').join('\n\n'),
    tools: [...agent.tools, ...offered.map((tool) => ({ client: clientTool(tool.function) }))],
    settings: { ...agent.settings, ...settingsOf(request) },
    toolChoice: forcedChoice(request),
  });
}

function clientTool({ name: toolName, description, parameters: inputSchema }: z.infer<typeof tool>['function']) {
  return {
    name: toolName,
    description: description == null || description === '' ? toolName : description,
    inputSchema: inputSchema ?? { type: 'object' as const },
  };
}
