/**
 * A change of a request that makes an endpoint take it:
 * - `return_thoughts`: every assistant message with calls has thoughts. `detail`: the field's name.
 * - `omit_thoughts`: no assistant message has thoughts without a signature.
 * - `omit_signed_thoughts`: no assistant message has any thoughts.
 * - `without_thinking`: the model is not asked to think.
 * - `bridge_roles`: an assistant message stands between a tool's result and a user message.
 * - `nine_letter_ids`: ids of calls have nine letters or digits.
 * - `plain_ids`: ids of calls have letters, digits, `_` and `-` only, and 40 of them at most.
 * - `dummy_signatures`: calls without a signature have the one that the provider documents for that.
 * - `calls_as_text`: without tools, the calls of earlier steps are texts.
 * - `omit_provider_calls`: no calls that the provider ran itself.
 * - `plain_content`: messages have texts: an empty one where there was none, and one in place of a list.
 * - `omit_file`: a text stands in the place of a file. `detail`: the URL of the file in the transcript.
 * - `simple_schema`: the schema of a tool has no combination at its root. `detail`: the tool.
 * - `omit_tool`: a tool is not offered. `detail`: the tool.
 * - `without_strict`: schemas are not asked to be kept strictly.
 * - `without_parameter`: a field of the request is left out. `detail`: the field.
 * - `completion_tokens`: the limit of the answer is called `max_completion_tokens`.
 */
export const ADAPTATION_KINDS = [
  'return_thoughts',
  'omit_thoughts',
  'omit_signed_thoughts',
  'without_thinking',
  'bridge_roles',
  'nine_letter_ids',
  'plain_ids',
  'dummy_signatures',
  'calls_as_text',
  'omit_provider_calls',
  'plain_content',
  'omit_file',
  'simple_schema',
  'omit_tool',
  'without_strict',
  'without_parameter',
  'completion_tokens',
] as const;

export type AdaptationKind = (typeof ADAPTATION_KINDS)[number];

export type Adaptation = Readonly<{
  kind: AdaptationKind;
  /** Empty: the change has none. */
  detail: string;
}>;

export const adapt = (kind: AdaptationKind, detail = ''): Adaptation => ({ kind, detail });

export const isSame = (a: Adaptation, b: Adaptation): boolean => a.kind === b.kind && a.detail === b.detail;

/** The change in a whole sentence, as events and the console have it. */
export function describeAdaptation({ kind, detail }: Adaptation): string {
  return WORDS[kind].replace('$', detail);
}

const WORDS: Readonly<Record<AdaptationKind, string>> = {
  return_thoughts: 'The thoughts of earlier steps are sent back ($).',
  omit_thoughts: 'Thoughts without a signature are not sent back.',
  omit_signed_thoughts: 'No thoughts are sent back.',
  without_thinking: 'The model is asked without thinking.',
  bridge_roles: 'A short message of the assistant stands between a result and the next message of the user.',
  nine_letter_ids: 'The ids of calls have nine letters.',
  plain_ids: 'The ids of calls have letters and digits only.',
  dummy_signatures: 'Calls of other models have a dummy signature.',
  calls_as_text: 'Earlier calls are sent as texts where no tools are offered.',
  omit_provider_calls: 'Calls that the provider ran itself are not sent back.',
  plain_content: 'Messages are sent as plain texts.',
  omit_file: 'A file is left out: $.',
  simple_schema: 'The schema of the tool $ is sent without combinations at its root.',
  omit_tool: 'The tool $ is not offered.',
  without_strict: 'Schemas are sent without strictness.',
  without_parameter: 'The request is sent without $.',
  completion_tokens: 'The limit of the answer is sent as max_completion_tokens.',
};
