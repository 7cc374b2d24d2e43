import { combinedAt, hasBrokenPicture, type Rule, refusesField, type Ways } from './profile-rules.ts';

/** Endpoints of OpenAI's Responses protocol. What all of them refuse is in `strict.ts`. */
export const RESPONSES_PROFILES = ['openai', 'responses-pool', 'responses-plain'] as const;
type Name = (typeof RESPONSES_PROFILES)[number];

type Item = Readonly<{
  type?: string;
  role?: string;
  id?: string;
  call_id?: string;
  encrypted_content?: string | null;
}>;
export type ResponsesBody = Readonly<{
  input?: string | readonly Item[];
  tools?: readonly Readonly<{ name?: string; parameters?: object }>[];
  include?: readonly string[];
  temperature?: number;
  prompt_cache_key?: string;
  reasoning?: Readonly<{ summary?: string }>;
}>;

const itemsOf = ({ input = [] }: ResponsesBody): readonly Item[] => (typeof input === 'string' ? [] : input);

const ID_PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  function_call_output: 'fc',
  reasoning: 'rs',
  web_search_call: 'ws',
};
const MAX_CALL_ID_CHARS = 64;

const isFollowing = (item: Item | undefined): boolean =>
  item !== undefined &&
  (item.type === 'function_call' ||
    item.type === 'web_search_call' ||
    item.type === 'reasoning' ||
    item.role === 'assistant');

const ITEM_RULES: readonly Rule<ResponsesBody>[] = [
  {
    name: 'ids',
    words(body) {
      const items = itemsOf(body);
      const prefixOf = ({ type = 'message' }: Item): string => ID_PREFIXES[type] ?? '';
      const at = items.findIndex((item) => item.id !== undefined && !item.id.startsWith(prefixOf(item)));
      const odd = items[at];
      return odd && `Invalid 'input[${at}].id': '${odd.id}'. Expected an ID that begins with '${prefixOf(odd)}'.`;
    },
  },
  {
    name: 'call-ids',
    words(body) {
      const items = itemsOf(body);
      const at = items.findIndex(({ call_id: id = '' }) => id.length > MAX_CALL_ID_CHARS);
      const { length } = items[at]?.call_id ?? '';
      return at < 0
        ? undefined
        : `Invalid 'input[${at}].call_id': string too long. Expected a string with maximum length ${MAX_CALL_ID_CHARS}, but got a string with length ${length} instead.`;
    },
  },
  {
    name: 'following',
    words(body) {
      const lone = itemsOf(body).find((item, at, all) => item.type === 'reasoning' && !isFollowing(all[at + 1]));
      return lone && `Item '${lone.id ?? ''}' of type 'reasoning' was provided without its required following item.`;
    },
  },
  {
    name: 'searches',
    words(body) {
      const lone = itemsOf(body).find(
        (item, at, all) =>
          item.type === 'web_search_call' && !['reasoning', item.type].includes(all[at - 1]?.type ?? ''),
      );
      return (
        lone && `Item '${lone.id ?? ''}' of type 'web_search_call' was provided without its required 'reasoning' item.`
      );
    },
  },
  {
    name: 'twice',
    words(body) {
      const ids = itemsOf(body).flatMap(({ id }) => (id === undefined ? [] : [id]));
      const twice = ids.find((id, at) => ids.indexOf(id) !== at);
      return twice && `Duplicate item found with id ${twice}. Remove duplicate items from your input and try again.`;
    },
  },
  {
    name: 'combination',
    words({ tools = [] }) {
      const at = combinedAt(tools.map(({ parameters }) => parameters));
      return at < 0
        ? undefined
        : `Invalid schema for function '${tools[at]?.name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.`;
    },
  },
];

export const RESPONSES_RULES: Readonly<Record<Name, readonly Rule<ResponsesBody>[]>> = {
  // As for an organization that has not shown who it is.
  openai: [
    ...ITEM_RULES,
    refusesField('temperature', "Unsupported parameter: 'temperature' is not supported with this model."),
    {
      name: 'summary',
      words: ({ reasoning }) =>
        reasoning?.summary === undefined
          ? undefined
          : 'Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.',
      wrap: (message) => ({
        error: { message, type: 'invalid_request_error', param: 'reasoning.summary', code: 'unsupported_value' },
      }),
    },
    {
      name: 'images',
      words: (body) =>
        hasBrokenPicture(JSON.stringify(itemsOf(body)))
          ? "The image data you provided does not represent a valid image. Please check your input and try again with one of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp']."
          : undefined,
    },
  ],
  // A gateway that asks with another account each time, none of which can read what another one has encrypted.
  'responses-pool': [
    ...ITEM_RULES,
    {
      name: 'reasoning',
      words: (body) =>
        itemsOf(body).some(({ encrypted_content: text }) => text != null)
          ? 'The encrypted content gAAA...c90= could not be verified. Reason: Encrypted content could not be decrypted or parsed.'
          : undefined,
      wrap: (message) => ({
        error: { message, type: 'invalid_request_error', param: null, code: 'invalid_encrypted_content' },
      }),
    },
  ],
  // A server that reasons, and encrypts none of it.
  'responses-plain': [
    {
      name: 'include',
      words: ({ include = [] }) =>
        include.includes('reasoning.encrypted_content')
          ? 'Encrypted content is not supported with this model.'
          : undefined,
      wrap: (message) => ({ error: { message, type: 'invalid_request_error', param: 'include', code: null } }),
    },
    refusesField('prompt_cache_key', "Unknown parameter: 'prompt_cache_key'."),
    {
      name: 'searches',
      words: (body) =>
        itemsOf(body).some(({ type }) => type === 'web_search_call')
          ? "Invalid value: 'web_search_call'. Supported values are: 'message', 'function_call', 'function_call_output' and 'reasoning'."
          : undefined,
    },
  ],
};

export const RESPONSES_WAYS: Readonly<Record<Name, Ways>> = {
  openai: {},
  'responses-pool': {},
  'responses-plain': { hidesReasoning: true, hidesSession: true },
};
