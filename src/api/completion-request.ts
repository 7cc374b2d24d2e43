import { z } from 'zod';
import { listOf } from '../domain/bounded-list.ts';
import { areJsonTextsBounded, isWithinJsonDepth } from '../domain/json-bounds.ts';
import { modelSettingsSchema } from '../domain/model/model-settings.ts';
import { schemaBy, toObjectSchema } from '../domain/object-schema.ts';
import { OUTPUT_NAME } from '../domain/run/output-format.ts';
import { readOutputSchema } from '../domain/run/output-schema.ts';
import {
  MAX_CALLS_PER_MESSAGE,
  MAX_CONVERSATION_MESSAGES,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
  MAX_KEPT_OUTPUT_CHARS,
  MAX_MESSAGE_CHARS,
  MAX_MESSAGE_FILES,
  MAX_MESSAGE_PARTS,
} from '../domain/tunables.ts';
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

const caching = { prompt_cache_breakpoint: breakpoint, cache_control: breakpoint };
const textPart = z.strictObject({ type: z.literal('text'), text: z.string(), ...caching });
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
/** The media type of an image by its URL. Empty: the URL holds the image, with its type. */
export const imageTypeOf = (url: string): string => IMAGE_ENDINGS[/^data:/i.test(url) ? '' : endingOf(url)] ?? '';
const MAX_URL_CHARS = 8_192;
const isImageUrl = (url: string): boolean =>
  /^data:/i.test(url) || (url.length <= MAX_URL_CHARS && Object.hasOwn(IMAGE_ENDINGS, endingOf(url)));

const imagePart = z.strictObject({
  type: z.literal('image_url'),
  image_url: z.strictObject({
    url: z.string().refine(isImageUrl, 'a data URL, or a URL that ends with .png, .jpg, .gif or .webp'),
    detail: word.nullish(),
  }),
  ...caching,
});
/** The media type of a file by its URL, as of images. Null: only documents that providers fetch themselves have one. */
export const fileTypeOf = (url: string): string | null => (endingOf(url) === 'pdf' ? 'application/pdf' : null);
const isFileUrl = (url: string): boolean =>
  /^https?:/i.test(url) && url.length <= MAX_URL_CHARS && fileTypeOf(url) !== null;

const filePart = z.strictObject({
  type: z.literal('file'),
  file: z
    .strictObject({
      file_data: z
        .string()
        .regex(/^data:/i, 'a data URL')
        .optional(),
      /** Of OpenAI's responses. */
      file_url: z.string().refine(isFileUrl, 'a URL that ends with .pdf: send another file as file_data').optional(),
      file_id: z.null({ error: 'not possible here' }).optional(),
      filename: z.string().min(1).max(255).nullish(),
    })
    .refine((file) => (file.file_data === undefined) !== (file.file_url === undefined), {
      error: 'either file_data or file_url',
    }),
  ...caching,
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
        'a text, or parts of type text, image_url (a data URL, or one that ends with .png, .jpg, .gif or .webp) and file (file_data, or a URL that ends with .pdf)',
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

/** Fields of a message that gateways and other services add. */
const added = { id: word.nullish(), cache_control: breakpoint };

/** A part of an assistant's message, as other services and the libraries of agents store it. */
const saidPart = z.union([
  z.looseObject({ type: z.enum(['text', 'output_text']), text: z.string() }),
  z.looseObject({ type: z.literal('refusal'), refusal: z.string() }).transform(({ refusal }) => ({
    ...{ type: 'text' as const, text: refusal },
  })),
]);
const said = z.union(
  [
    z.string().max(MAX_MESSAGE_CHARS),
    listOf(saidPart, MAX_MESSAGE_PARTS).refine(isTextWithin(MAX_MESSAGE_CHARS), tooLong(MAX_MESSAGE_CHARS)),
  ],
  { error: 'a text, or parts of type text' },
);

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer']), content, name, ...added }),
  z.strictObject({ role: z.literal('user'), content: withFiles(1, MAX_MESSAGE_CHARS), name, ...added }),
  // Clients send back whole messages of the assistant, with fields that are of no use here.
  z.looseObject({ role: z.literal('assistant'), content: said.nullish(), tool_calls: calls.nullish() }),
  // OpenAI takes only texts there; other services with its API also take files.
  z.strictObject({
    ...{ role: z.literal('tool'), content: withFiles(0, MAX_KEPT_OUTPUT_CHARS), tool_call_id: word, name },
    ...added,
  }),
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
  cache_control: breakpoint,
});

const namedFunction = z.strictObject({ type: z.literal('function'), function: z.strictObject({ name: word }) });
const toolChoice = z.union(
  [
    z.enum(['auto', 'none', 'required']),
    namedFunction,
    z.strictObject({
      type: z.literal('allowed_tools'),
      allowed_tools: z.strictObject({ mode: z.enum(['auto', 'required']), tools: listOf(namedFunction, 128).min(1) }),
    }),
  ],
  { error: '"auto", "none", "required", a function by its name, or allowed_tools' },
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
export type FunctionDefinition = z.infer<typeof tool>['function'];
export type ContentWithFiles = z.infer<ReturnType<typeof withFiles>>;

export const textOf = (texts: string | readonly Readonly<{ text: string }>[] | null | undefined): string =>
  typeof texts === 'string' ? texts : (texts ?? []).map(({ text }) => text).join('');

/** The texts of the instructions, in their order. */
export const instructionsOf = (messages: readonly z.infer<typeof message>[]): string[] =>
  messages.flatMap((item) => (item.role === 'system' || item.role === 'developer' ? [textOf(item.content)] : []));

const argumentsOf = (messages: readonly z.infer<typeof message>[]): string[] =>
  messages.flatMap((item) =>
    item.role === 'assistant' ? (item.tool_calls ?? []).map((call) => call.function.arguments) : [],
  );
