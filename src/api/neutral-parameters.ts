import { z } from 'zod';
import { listOf } from '../domain/bounded-list.ts';

const REFUSED = { error: 'not possible here' };

/** Allows the neutral value, null, or no parameter at all. */
const only = <Value extends string | number | boolean>(value: Value) =>
  z.literal(value, { error: `only ${JSON.stringify(value)} is possible here` }).nullish();
const nothing = z.null(REFUSED).optional();
const emptyList = z.array(z.unknown(), REFUSED).max(0, REFUSED).nullish();
const emptyObject = z
  .looseObject({}, REFUSED)
  .refine((object) => Object.keys(object).length === 0, REFUSED)
  .nullish();
const ignoredObject = z.looseObject({}).nullish();
const ignoredText = z.string().nullish();

/**
 * Unsupported parameters of OpenAI's chat completions, which clients send at values that ask for nothing. Other values
 * would change the answer and are refused by name, so that the client does not take them for applied.
 * https://platform.openai.com/docs/api-reference/chat/create
 */
export const NEUTRAL_PARAMETERS = {
  n: only(1),
  presence_penalty: only(0),
  frequency_penalty: only(0),
  logprobs: only(false),
  top_logprobs: only(0),
  logit_bias: emptyObject,
  parallel_tool_calls: z.boolean().nullish(),
  verbosity: only('medium'),
  functions: emptyList,
  function_call: z.enum(['auto', 'none'], REFUSED).nullish(),
  modalities: listOf(z.string(), 10)
    .refine((kinds) => kinds.every((kind) => kind === 'text'), { error: 'only "text" is possible here' })
    .nullish(),
  audio: emptyObject,
  moderation: emptyObject,
  /** An empty object would switch the search on. */
  web_search_options: nothing,
};

/** Parameters that do not change an answer: costs, speed and records of the provider. */
export const IGNORED_PARAMETERS = {
  metadata: ignoredObject,
  store: z.boolean().nullish(),
  service_tier: ignoredText,
  prediction: ignoredObject,
  prompt_cache_key: ignoredText,
  prompt_cache_options: ignoredObject,
  prompt_cache_retention: ignoredText,
};
