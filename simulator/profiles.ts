import type { ScriptedFinishReason } from './reply.ts';

/** The ways of endpoints that answer a little differently from the protocol's author. */
export const PROFILE_NAMES = ['deepseek', 'kimi', 'mistral', 'vllm', 'lmstudio', 'gateway', 'gemini-compat'] as const;
export type ProfileName = (typeof PROFILE_NAMES)[number];

/** A refusal for the form of a request, in the words of its endpoint. `rule`: what was broken. */
type FormRefusal = Readonly<{ rule: string; status: number; body: unknown }>;

export type Profile = Readonly<{
  /** The first rule that a request breaks. Undefined: it is taken. */
  refuses: (body: unknown) => FormRefusal | undefined;
  /** Where its answers have their thoughts. Default: they show none. */
  thoughts?: 'reasoning_content' | 'reasoning';
  finishWords?: Partial<Record<ScriptedFinishReason, string>>;
  /** No chunk has a finish reason; `[DONE]` alone ends the stream. */
  hasNoReason?: true;
  /** The id of a call by its name and its number in the conversation. */
  callId?: (name: string, no: number) => string;
  /** Each call has a signature. */
  signsCalls?: true;
}>;

type Message = Readonly<{
  role?: string;
  content?: unknown;
  tool_calls?: readonly Readonly<{ id: string; extra_content?: { google?: { thought_signature?: string } } }>[];
  tool_call_id?: string;
  reasoning_content?: string;
  reasoning?: string;
}>;
type Body = Readonly<{
  messages?: readonly Message[];
  tools?: readonly Readonly<{ function?: { strict?: boolean; name?: string; parameters?: object } }>[];
  temperature?: number;
  prompt_cache_key?: string;
  store?: boolean;
}>;
/** The words for what a request breaks. Undefined: it keeps the rule. */
type Rule = Readonly<{
  name: string;
  words: (body: Body) => string | undefined;
  status?: number;
  wrap?: (words: string) => unknown;
}>;

const openai = (message: string) => ({ error: { message, type: 'invalid_request_error' } });
const messagesOf = ({ messages = [] }: Body): readonly Message[] => messages;
const calling = (message: Message): boolean => message.role === 'assistant' && (message.tool_calls?.length ?? 0) > 0;
const idsOf = (message: Message): string[] => [
  ...(message.tool_calls ?? []).map(({ id }) => id),
  ...(message.tool_call_id === undefined ? [] : [message.tool_call_id]),
];

const wantsThoughts = (words: (index: number) => string): Rule => ({
  name: 'thoughts',
  words(body) {
    const index = messagesOf(body).findIndex((message) => calling(message) && !message.reasoning_content);
    return index < 0 ? undefined : words(index);
  },
});

const takesNoImages = (words: string): Rule => ({
  name: 'images',
  words: (body) => (JSON.stringify(messagesOf(body)).includes('"type":"image_url"') ? words : undefined),
});

const refusesField = (field: keyof Body, words: string): Rule => ({
  name: field,
  words: (body) => (body[field] === undefined ? undefined : words),
});

const RULES: Readonly<Record<ProfileName, readonly Rule[]>> = {
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
        const at = (body.tools ?? []).findIndex(({ function: tool }) => 'anyOf' in (tool?.parameters ?? {}));
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
};

const WAYS: Readonly<Record<ProfileName, Omit<Profile, 'refuses'>>> = {
  deepseek: { thoughts: 'reasoning_content' },
  kimi: { thoughts: 'reasoning_content', callId: (name, no) => `functions.${name}:${no}` },
  mistral: { callId: (_, no) => `Call${String(no).padStart(5, '0')}`, finishWords: { length: 'model_length' } },
  vllm: { thoughts: 'reasoning' },
  lmstudio: { hasNoReason: true },
  gateway: { finishWords: { stop: 'end_turn', 'tool-calls': 'tool_use', length: 'MAX_TOKENS' } },
  'gemini-compat': { signsCalls: true, finishWords: { stop: 'STOP', 'tool-calls': 'STOP', length: 'MAX_TOKENS' } },
};

export function profileNamed(name: ProfileName): Profile {
  return { ...WAYS[name], refuses: (body) => refusalBy(RULES[name], body as Body) };
}

function refusalBy(rules: readonly Rule[], body: Body): FormRefusal | undefined {
  for (const { name, words, status = 400, wrap = openai } of rules) {
    const broken = words(body);
    if (broken !== undefined) return { rule: name, status, body: wrap(broken) };
  }
  return undefined;
}
