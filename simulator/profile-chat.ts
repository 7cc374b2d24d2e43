import { combinedAt, hasBrokenPicture, type Rule, refusesField, type Ways } from './profile-rules.ts';

/** Endpoints of chat completions that differ from OpenAI's own. */
export const CHAT_PROFILES = [
  'deepseek',
  'kimi',
  'mistral',
  'vllm',
  'lmstudio',
  'gateway',
  'gemini-compat',
  'ollama',
] as const;
type Name = (typeof CHAT_PROFILES)[number];

type Message = Readonly<{
  role?: string;
  content?: unknown;
  tool_calls?: readonly Readonly<{ id: string; extra_content?: { google?: { thought_signature?: string } } }>[];
  tool_call_id?: string;
  reasoning_content?: string;
  reasoning?: string;
}>;
export type ChatBody = Readonly<{
  messages?: readonly Message[];
  tools?: readonly Readonly<{ function?: { strict?: boolean; name?: string; parameters?: object } }>[];
  temperature?: number;
  prompt_cache_key?: string;
  store?: boolean;
}>;

const messagesOf = ({ messages = [] }: ChatBody): readonly Message[] => messages;
const calling = (message: Message): boolean => message.role === 'assistant' && (message.tool_calls?.length ?? 0) > 0;
const idsOf = (message: Message): string[] => [
  ...(message.tool_calls ?? []).map(({ id }) => id),
  ...(message.tool_call_id === undefined ? [] : [message.tool_call_id]),
];

const wantsThoughts = (words: (index: number) => string): Rule<ChatBody> => ({
  name: 'thoughts',
  words(body) {
    const index = messagesOf(body).findIndex((message) => calling(message) && !message.reasoning_content);
    return index < 0 ? undefined : words(index);
  },
});

const takesNoImages = (words: string): Rule<ChatBody> => ({
  name: 'images',
  words: (body) => (JSON.stringify(messagesOf(body)).includes('"type":"image_url"') ? words : undefined),
});

export const CHAT_RULES: Readonly<Record<Name, readonly Rule<ChatBody>[]>> = {
  deepseek: [
    takesNoImages(
      'Failed to deserialize the JSON body into the target type: unknown variant `image_url`, expected `text`',
    ),
    wantsThoughts(() => 'The `reasoning_content` in the thinking mode must be passed back to the API.'),
  ],
  kimi: [
    wantsThoughts(
      (index) =>
        `thinking is enabled but reasoning_content is missing in assistant tool call message at index ${index}`,
    ),
  ],
  mistral: [
    {
      name: 'thoughts',
      words: (body) =>
        messagesOf(body).some((message) => message.reasoning_content !== undefined || message.reasoning !== undefined)
          ? 'body.messages.1.assistant.reasoning_content: Extra inputs are not permitted'
          : undefined,
      status: 422,
      wrap: (message) => ({ object: 'error', message, type: 'invalid_request_error' }),
    },
    {
      name: 'ids',
      words(body) {
        const odd = messagesOf(body)
          .flatMap(idsOf)
          .find((id) => !/^[a-zA-Z0-9]{9}$/.test(id));
        return odd && `Tool call id was ${odd} but must be a-z, A-Z, 0-9, with a length of 9.`;
      },
      wrap: (message) => ({ object: 'error', message, type: 'invalid_function_call', code: '3280' }),
    },
    {
      name: 'order',
      words: (body) =>
        messagesOf(body).some((message, at, all) => message.role === 'user' && all[at - 1]?.role === 'tool')
          ? "Unexpected role 'user' after role 'tool'"
          : undefined,
      wrap: (message) => ({ object: 'error', message, type: 'invalid_request_message_order', code: '3230' }),
    },
  ],
  vllm: [
    takesNoImages('At most 0 image(s) may be provided in one prompt: this is not a multimodal model.'),
    {
      name: 'combination',
      words(body) {
        const at = combinedAt((body.tools ?? []).map(({ function: tool }) => tool?.parameters));
        return at < 0 ? undefined : `tools[${at}].function.parameters: the schema is not supported by the grammar`;
      },
    },
  ],
  lmstudio: [refusesField('temperature', 'Unrecognized request argument supplied: temperature')],
  gateway: [
    refusesField('store', "Unsupported parameter: 'store' is not supported with this model."),
    refusesField('prompt_cache_key', "Unknown parameter: 'prompt_cache_key'."),
  ],
  'gemini-compat': [
    {
      name: 'images',
      words: (body) =>
        hasBrokenPicture(JSON.stringify(messagesOf(body)))
          ? 'Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting'
          : undefined,
      wrap: (message) => [{ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }],
    },
    {
      name: 'signatures',
      words: (body) =>
        messagesOf(body).some((message) =>
          message.tool_calls?.some(({ extra_content: extra }) => !extra?.google?.thought_signature),
        )
          ? 'Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.'
          : undefined,
      wrap: (message) => [{ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }],
    },
  ],
  ollama: [
    {
      name: 'content',
      words: (body) =>
        messagesOf(body).some(({ content = null }) => content === null)
          ? 'invalid message content type: <nil>'
          : undefined,
    },
    takesNoImages('this model is missing data required for image input'),
  ],
};

export const CHAT_WAYS: Readonly<Record<Name, Ways>> = {
  deepseek: { thoughts: 'reasoning_content' },
  kimi: { thoughts: 'reasoning_content', callId: (name, no) => `functions.${name}:${no}` },
  mistral: { callId: (_, no) => `Call${String(no).padStart(5, '0')}`, finishWords: { length: 'model_length' } },
  vllm: { thoughts: 'reasoning' },
  ollama: { thoughts: 'reasoning' },
  lmstudio: { hasNoReason: true },
  gateway: { hidesSession: true, finishWords: { stop: 'end_turn', 'tool-calls': 'tool_use', length: 'MAX_TOKENS' } },
  'gemini-compat': { signsCalls: true, finishWords: { stop: 'STOP', 'tool-calls': 'STOP', length: 'MAX_TOKENS' } },
};
