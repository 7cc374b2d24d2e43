import type { AdaptationKind } from './adaptation.ts';

/** A provider's words for a refusal, and the changes that answer it, the first of which is tried first. */
export type RemedyRule = Readonly<{
  /** Origin of the words. Gateways and compatible servers copy them. */
  provider: string;
  /**
   * Named groups, all optional: `field` of thoughts, `index` or `tool` of a tool, `parameter`. `.{0,n}` in place of `.*`
   * bounds the time.
   */
  text: RegExp;
  remedies: readonly AdaptationKind[];
  /** The field to leave out, where the words do not name it as the request does. */
  parameter?: string;
}>;

/** The first rule that matches and has a remedy left decides. */
export const REMEDY_RULES: readonly RemedyRule[] = [
  // Calls that the provider ran itself, and thoughts beside them.
  {
    provider: 'OpenAI, and servers with its Responses',
    text: /(?:web_search|file_search|code_interpreter|image_generation|computer|mcp)_call\b.{0,120}without its required|(?:invalid|unknown|unsupported|unexpected)\b.{0,80}['"`](?:web_search|file_search|code_interpreter|image_generation|computer|mcp)_call|['"`](?:web_search|file_search|code_interpreter|image_generation|computer|mcp)_call['"`].{0,60}not (?:supported|allowed|permitted|a valid)/i,
    remedies: ['omit_provider_calls'],
  },
  {
    provider: 'OpenAI',
    text: /of type \W?reasoning\W? was provided without its required following item/i,
    remedies: ['omit_provider_calls', 'omit_signed_thoughts'],
  },
  // Thoughts that are wanted.
  {
    provider: 'DeepSeek, Kimi',
    text: /(?<field>reasoning_content|reasoning_details)\b.{0,120}(?:must be|is|are|was|has to be|should be|be) (?:passed|missing|required|provided|sent|included|returned|set|present|non-?empty)/i,
    remedies: ['return_thoughts', 'without_thinking'],
  },
  {
    provider: 'Kimi, vLLM',
    text: /(?:missing|requires?|must (?:include|have|contain|provide)|without|expected|lacks?|needs?|no)\b.{0,60}(?<field>reasoning_content|reasoning_details|`reasoning`|'reasoning'|"reasoning")/i,
    remedies: ['return_thoughts', 'without_thinking'],
  },
  {
    provider: 'OpenRouter',
    text: /[`'"](?<field>reasoning)[`'"].{0,80}(?:must be|is|was) (?:passed|missing|required|provided|included|returned)/i,
    remedies: ['return_thoughts', 'without_thinking'],
  },
  {
    provider: 'DeepSeek (Anthropic)',
    text: /thinking\b.{0,100}must be passed back/i,
    remedies: ['return_thoughts', 'without_thinking'],
  },
  {
    provider: 'Anthropic',
    text: /expected `?thinking`? or `?redacted_thinking`?, but found|must start with a thinking block/i,
    remedies: ['without_thinking'],
  },
  // Thoughts that are refused.
  {
    provider: 'OpenAI',
    text: /encrypted[_ ]content is not supported/i,
    remedies: ['without_parameter', 'omit_signed_thoughts'],
    parameter: 'include',
  },
  {
    provider: 'OpenAI, Azure, xAI: thoughts that another key has encrypted',
    text: /encrypted[_ ]content\b.{0,80}could not be (?:verified|decrypted|parsed)|could not decrypt.{0,40}encrypted[_ ]content|invalid_encrypted_content/i,
    remedies: ['omit_signed_thoughts'],
  },
  {
    provider: 'Anthropic',
    text: /thinking`? (?:or `?redacted_thinking`? )?blocks\b.{0,60}cannot be modified/i,
    remedies: ['omit_signed_thoughts', 'without_thinking'],
  },
  {
    provider: 'DeepSeek of old, Mistral, Groq',
    text: /\b(?:reasoning_content|reasoning_details|['"`]?reasoning['"`]?)\b.{0,120}(?:not (?:be (?:included|passed|sent)|allowed|permitted|supported|expected|a valid)|unsupported|unexpected|unknown|unrecognized|extra inputs|extra_forbidden)/i,
    remedies: ['omit_thoughts'],
  },
  {
    provider: 'DeepSeek of old, OpenAI',
    text: /(?:not (?:include|pass|send|support)|unsupported|unexpected|unknown|unrecognized|extra|additional)\b.{0,100}\b(?:reasoning_content|reasoning_details)\b/i,
    remedies: ['omit_thoughts'],
  },
  {
    provider: 'Anthropic',
    text: /(?:invalid|missing|empty)\b.{0,20}`?signature`?.{0,20}(?:in|of|for) `?thinking`?|thinking\.signature|signature: field required/i,
    remedies: ['omit_thoughts', 'omit_signed_thoughts', 'without_thinking'],
  },
  {
    provider: 'Fireworks',
    text: /extra inputs are not permitted\b.{0,40}messages\[\d+\]\.reasoning/i,
    remedies: ['omit_thoughts'],
  },
  // Calls without tools.
  {
    provider: 'Bedrock, Anthropic of old',
    text: /toolconfig field must be defined|tool_result blocks must define tools/i,
    remedies: ['calls_as_text'],
  },
  // Signatures of calls.
  {
    provider: 'Google',
    text: /missing (?:a |its )?`?thought_?signature|thought_?signature\b.{0,60}(?:missing|required|must be)/i,
    remedies: ['dummy_signatures'],
  },
  // Ids.
  {
    provider: 'Mistral',
    text: /must be a-z, A-Z, 0-9, with a length of 9|tool[ _]call[ _]?id\b.{0,80}(?:length|exactly) (?:of )?(?:9|nine)\b/i,
    remedies: ['nine_letter_ids'],
  },
  {
    provider: 'Anthropic, OpenAI',
    text: /(?:tool_use\.id|tool_use_id|tool_call_id|call_id|tool call id)\b.{0,120}(?:should match pattern|must match|string too long|invalid (?:format|characters?)|maximum length|expected a string with)/i,
    remedies: ['plain_ids', 'nine_letter_ids'],
  },
  // Content.
  {
    provider: 'Ollama, TGI, OpenAI',
    text: /invalid message content type: <nil>|\bcontent\b.{0,60}(?:invalid type: (?:null|sequence)|(?:got|received|not) (?:null|none|list|array|a list)\b)|invalid ['"`]?content['"`]? type|input should be a valid string: .{0,40}content/i,
    remedies: ['plain_content'],
  },
  // Order.
  {
    provider: 'Perplexity',
    text: /(?:should|must) (?:be alternating|alternate with assistant message)/i,
    remedies: ['bridge_roles'],
  },
  {
    provider: 'Mistral',
    text: /unexpected role .{0,4}user.{0,4} after role .{0,4}tool|(?:expected|only) .{0,40}(?:assistant|tool).{0,40}after .{0,10}tool|user message.{0,40}(?:after|following|follow) a? ?tool/i,
    remedies: ['bridge_roles'],
  },
  {
    provider: 'templates of Mistral, Devstral',
    text: /after the optional system message, conversation roles must alternate|roles must alternate user\/assistant/i,
    remedies: ['bridge_roles'],
  },
  // Files.
  {
    provider: 'Anthropic',
    text: /could not process (?:image|document|pdf|file)|(?:image|pdf|document)\b.{0,60}(?:was|is|are) (?:not valid|invalid|corrupt(?:ed)?|password|encrypted|unsupported|unreadable|empty|not supported)/i,
    remedies: ['omit_file'],
  },
  {
    provider: 'OpenAI',
    text: /(?:unsupported|invalid|unable to (?:process|read|parse|decode)|cannot (?:identify|process|read|decode|parse)|failed to (?:load|process|decode|parse|read|open)|error (?:loading|processing|decoding|parsing))\b.{0,40}\b(?:image|pdf|document|file data|media)\b|invalid_image|unsupported_image|image_parse_error/i,
    remedies: ['omit_file'],
  },
  {
    provider: 'OpenAI, Google, vLLM',
    text: /\b(?:image|pdf|document|file)\b.{0,80}(?:not (?:supported|valid|readable|a valid)|does not match|is too (?:small|large)|could not be (?:processed|read|decoded|loaded|parsed)|password|no pages|cannot be (?:read|processed|decoded|loaded))|does not represent a valid image|media_type\b.{0,60}(?:but|does not|doesn't)/i,
    remedies: ['omit_file'],
  },
  {
    provider: 'Ollama',
    text: /missing data required for image input/i,
    remedies: ['omit_file'],
  },
  {
    provider: 'text models',
    text: /(?:does not support|doesn't support|not support(?:ed)?|no support for|cannot (?:take|handle|read))\b.{0,40}(?:image|vision|multimodal|file|pdf|document)|image_url\b.{0,60}(?:not supported|only supported|unknown variant|expected)|unknown variant `?image|not a multimodal model/i,
    remedies: ['omit_file'],
  },
  // Tools. A strict schema is refused in the words of a schema.
  {
    provider: 'OpenAI',
    text: /\bstrict\b.{0,80}(?:not (?:supported|allowed|permitted)|unsupported|unknown|must be)|(?:unsupported|unknown|unrecognized)\b.{0,60}\bstrict\b/i,
    remedies: ['without_strict'],
  },
  {
    provider: 'OpenAI',
    text: /invalid schema for response_format|response_format\b.{0,80}(?:schema|json_schema).{0,80}(?:not (?:supported|permitted|valid)|unsupported|invalid)|output_(?:format|config)\b.{0,80}schema/i,
    remedies: ['without_strict', 'without_parameter'],
  },
  {
    provider: 'OpenAI',
    text: /invalid schema for function ['"`]?(?<tool>[\w.-]+).{0,120}(?:oneOf|anyOf|allOf)\b.{0,60}(?:top level|root)/i,
    remedies: ['simple_schema', 'omit_tool'],
  },
  {
    provider: 'OpenAI',
    text: /invalid schema for function ['"`]?(?<tool>[\w.-]+)/i,
    remedies: ['without_strict', 'simple_schema', 'omit_tool'],
  },
  {
    provider: 'Anthropic',
    text: /\btools[.[](?<index>\d+)\b/i,
    remedies: ['simple_schema', 'omit_tool'],
  },
  {
    provider: 'Google',
    text: /function_declarations\[(?<index>\d+)\]/i,
    remedies: ['simple_schema', 'omit_tool'],
  },
  {
    provider: 'many',
    text: /\b(?:tool|function)(?: name)?[:\s]+['"`](?<tool>[\w.-]+)['"`].{0,120}(?:schema|parameters|invalid|not (?:supported|valid)|unsupported)/i,
    remedies: ['simple_schema', 'omit_tool'],
  },
  {
    provider: 'llama.cpp, vLLM',
    text: /(?:json|tool|function)?[ _-]?schema\b.{0,80}(?:conversion failed|unsupported|not supported|cannot be (?:compiled|converted)|invalid)|grammar\b.{0,40}(?:error|failed|invalid)|input_schema does not support/i,
    remedies: ['without_strict', 'simple_schema'],
  },
  {
    provider: 'Cerebras',
    text: /unsupported json schema fields/i,
    remedies: ['without_strict', 'without_parameter'],
  },
  // Parameters.
  {
    provider: 'xAI',
    text: /not support(?:ed)? (?:the )?parameter reasoningEffort|not supported on this model: reasoning_effort/i,
    remedies: ['without_parameter'],
    parameter: 'reasoning_effort',
  },
  {
    provider: 'xAI',
    text: /argument not supported on this model: (?<parameter>[a-z_]+)/i,
    remedies: ['without_parameter'],
  },
  {
    provider: 'Groq',
    text: /json mode cannot be combined with tool/i,
    remedies: ['without_parameter'],
    parameter: 'response_format',
  },
  {
    provider: 'llama.cpp, Ollama',
    text: /tool choice\b.{0,40}not supported|unsupported tool choice/i,
    remedies: ['without_parameter'],
    parameter: 'tool_choice',
  },
  {
    provider: 'OpenAI',
    text: /must be verified to generate reasoning summaries/i,
    remedies: ['without_parameter'],
    parameter: 'reasoning.summary',
  },
  {
    provider: 'OpenAI',
    text: /max_tokens\b.{0,80}max_completion_tokens/i,
    remedies: ['completion_tokens'],
  },
  {
    provider: 'OpenAI',
    text: /(?:unsupported|unknown|unrecognized|unexpected|invalid|extra|additional)\b.{0,40}(?:parameters?|arguments?(?: supplied)?|keys?|fields?|propert(?:y|ies)|names?|values?)\b.{0,20}?['"`:\s]+(?<parameter>[a-z_]+(?:\.[a-z_]+)*)/i,
    remedies: ['without_parameter'],
  },
  {
    provider: 'Anthropic, Mistral, FastAPI',
    text: /['"`]?\b(?<parameter>[a-z_]+(?:\.[a-z_]+)*)['"`]?\W{1,4}(?:extra inputs are not permitted|extra fields not permitted|unknown field)/i,
    remedies: ['without_parameter'],
  },
  {
    provider: 'many',
    text: /['"`]?\b(?<parameter>temperature|top_p|top_k|seed|stop|stop_sequences|store|prompt_cache_key|stream_options|reasoning_effort|reasoning|thinking|tool_choice|response_format|parallel_tool_calls)\b['"`]?.{0,60}(?:not (?:supported|allowed|permitted|available|compatible)|unsupported|deprecated|cannot be (?:used|set|specified)|may only be set|only (?:supports?|the default)|must be (?:1|unset|omitted)|is not a valid)/i,
    remedies: ['without_parameter'],
  },
  {
    provider: 'many',
    text: /(?:not support|unsupported|not (?:allowed|permitted))\b.{0,40}['"`\s](?<parameter>temperature|top_p|top_k|seed|stop|stop_sequences|store|prompt_cache_key|stream_options|reasoning_effort|reasoning|thinking|tool_choice|response_format|parallel_tool_calls)\b/i,
    remedies: ['without_parameter'],
  },
];

/** Fields that a request can do without. `messages`, `model` and the like are never left out. */
export const LEAVABLE_FIELDS: ReadonlySet<string> = new Set([
  'temperature',
  'top_p',
  'top_k',
  'seed',
  'stop',
  'stop_sequences',
  'store',
  'prompt_cache_key',
  'stream_options',
  'stream_options.include_usage',
  'reasoning_effort',
  'reasoning',
  'reasoning.effort',
  'reasoning.summary',
  'include',
  'thinking',
  'thinking.block_binding',
  'output_config',
  'output_config.effort',
  'context_management',
  'tool_choice',
  'response_format',
  'parallel_tool_calls',
  'metadata',
  'metadata.user_id',
  'user',
  'text.verbosity',
]);

/** A server says it at the beginning; the rest may quote the prompt. */
export const MAX_REFUSAL_CHARS = 600;

/** Statuses of a refusal for the request's form; null: an error without one, as inside a stream. */
export const REFUSING_STATUSES: readonly (number | null)[] = [400, 404, 405, 413, 415, 422, 500, 501, 502, null];
