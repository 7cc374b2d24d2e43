/** Classes of overflow by remedy: a shorter history, a shorter answer, less media. */
export type OverflowClass = 'input_overflow' | 'output_reserve_overflow' | 'byte_overflow';

type OverflowScope = 'window' | 'input' | 'output';

export type OverflowRule = Readonly<{
  /** Origin of the text. Gateways and compatible servers copy it. */
  provider: string;
  class: OverflowClass;
  scope: OverflowScope;
  /**
   * Named groups, all optional: `limit`, `requested` (the whole request), `input`, `output`, and `atLeast` if the input
   * is only a lower bound. `.{0,n}` instead of `.*` bounds the time.
   */
  text: RegExp;
  /** Further statuses with which the text counts. */
  alsoWithin?: readonly number[];
}>;

const rule =
  (overflowClass: OverflowClass, scope: OverflowScope) =>
  (provider: string, text: RegExp, alsoWithin: readonly number[] = []): OverflowRule => ({
    provider,
    class: overflowClass,
    scope,
    text,
    ...(alsoWithin.length === 0 ? {} : { alsoWithin }),
  });

const window = rule('input_overflow', 'window');
const input = rule('input_overflow', 'input');
const output = rule('output_reserve_overflow', 'output');
const bytes = rule('byte_overflow', 'window');

/**
 * Texts of providers for a request that is too large, the most specific first: the first match that names numbers
 * decides, else the first match. A `window` or `input` text that names its parts may turn out to be an
 * `output_reserve_overflow`, see `readOverflowText`.
 *
 * Left out on purpose, because rate limits, quotas and validation errors use them too: a bare "exceeds the limit of N",
 * "too many tokens per ...", "string too long", "minimum token count".
 */
export const OVERFLOW_RULES: readonly OverflowRule[] = [
  // Only the output is too large: the history is fine.
  output('OpenAI', /max_(?:completion_|output_)?tokens\W{0,2} is too large.{0,60}supports at most (?<limit>[\d,]+)/i),
  output('Anthropic', /max_tokens: (?<output>[\d,]+) > (?<limit>[\d,]+), which is the maximum allowed/i),
  output('Groq', /`max_(?:completion_)?tokens` must be less than or equal to `?(?<limit>[\d,]+)/i),
  output('TGI', /: `max_new_tokens` must be <= (?<limit>[\d,]+)/i),
  output('DashScope', /range of max_tokens should be \[\d+, (?<limit>[\d,]+)\]/i),

  // Bytes, or media that is too large or too much: the tokens may well fit.
  bytes('Anthropic', /request exceeds the maximum size/i),
  bytes('Anthropic', /image exceeds \d+ ?MB maximum|image dimensions exceed max allowed size/i),
  bytes('Anthropic', /too many (?:images|documents)\b/i),
  bytes('Google', /request payload size exceeds the limit/i),
  bytes('DashScope', /string value length \(\d+\) exceeds the maximum allowed/i),
  // Also within a proxy's HTML, and where a gateway hides the status.
  bytes('proxies', /request entity too large|(?:payload|content|request body) (?:is )?too large/i, [500, 502]),

  window(
    'vLLM',
    /maximum context length is (?<limit>[\d,]+) tokens.{0,40}requested (?<output>[\d,]+) output tokens and your prompt contains (?<atLeast>at least )?(?<input>[\d,]+) input tokens.{0,60}?(?<requested>[\d,]+) (?:input )?tokens/i,
  ),
  window(
    'vLLM',
    /max_(?:completion_)?tokens\W{0,2} is too large: (?<output>[\d,]+)\. This model\W{1,2}s maximum context length is (?<limit>[\d,]+) tokens and your request has (?<input>[\d,]+) input tokens/i,
  ),
  window(
    'vLLM',
    /passed (?<input>[\d,]+) input tokens and requested (?<output>[\d,]+) output tokens.{0,40}context length is only (?<limit>[\d,]+) tokens/i,
  ),
  window(
    'OpenAI of old, DeepSeek',
    /maximum context length is (?<limit>[\d,]+) tokens.{0,40}requested (?:about )?(?<requested>[\d,]+) tokens \((?<input>[\d,]+) in (?:the messages|your prompt).{0,60}?(?<output>[\d,]+) (?:in|for) the completion/i,
  ),
  window(
    'OpenRouter',
    /maximum context length is (?<limit>[\d,]+) tokens.{0,40}requested about (?<requested>[\d,]+) tokens \(.{0,80}?(?<output>[\d,]+) in the output/i,
  ),
  window(
    'OpenRouter',
    /maximum context length is (?<limit>[\d,]+) tokens.{0,40}requested (?:about )?(?<requested>[\d,]+) tokens/i,
  ),
  window(
    'OpenAI, Azure',
    /maximum context length is (?<limit>[\d,]+) tokens.{0,60}resulted in (?<requested>[\d,]+) tokens/i,
  ),
  input(
    'OpenAI',
    /input tokens exceed the configured limit of (?<limit>[\d,]+) tokens(?:.{0,60}resulted in (?<requested>[\d,]+) tokens)?/i,
  ),
  input('OpenAI', /exceeds the context window/i),
  // Too many messages, of any length: a shorter history helps.
  input('OpenAI', /invalid '(?:messages|input)': array too long/i),
  window('Anthropic', /prompt is too long: (?<requested>[\d,]+) tokens > (?<limit>[\d,]+) maximum/i),
  window('Anthropic', /exceed context limit: (?<input>[\d,]+) \+ (?<output>[\d,]+) > (?<limit>[\d,]+)/i),
  input('Anthropic', /prompt is too long/i),
  input('Bedrock', /input is too long for requested model/i),
  input('Bedrock', /input length exceeds context window/i),
  window('Bedrock', /input and output tokens exceed your context limit/i),
  input(
    'Google',
    /input token count \((?<requested>[\d,]+)\) exceeds the maximum number of tokens allowed \(?(?<limit>[\d,]+)\)?/i,
  ),
  input('Google', /input token count is (?<requested>[\d,]+) but model only supports up to (?<limit>[\d,]+)/i),
  input('Google', /exceeds the maximum number of tokens allowed \(?(?<limit>[\d,]+)\)?/i),
  window(
    'Mistral',
    /prompt contains (?<requested>[\d,]+) tokens.{0,80}too large for model with (?<limit>[\d,]+) maximum context length/i,
  ),
  window('Mistral', /too large for model with (?<limit>[\d,]+) maximum context length/i),
  window('Cerebras', /current length is (?<requested>[\d,]+) while limit is (?<limit>[\d,]+)/i),
  input('Groq', /reduce the length of the messages/i),
  input('xAI', /maximum prompt length is (?<limit>[\d,]+)(?:.{0,40}request contains (?<requested>[\d,]+) tokens)?/i),
  input(
    'OpenRouter',
    /input length (?<requested>[\d,]+) exceeds the maximum allowed input length of (?<limit>[\d,]+)/i,
  ),
  window(
    'Together',
    /input \((?<requested>[\d,]+) tokens\) is longer than the model\W{1,2}s context length \((?<limit>[\d,]+) tokens\)/i,
  ),
  input(
    'SGLang',
    /input length \((?<requested>[\d,]+) tokens\) exceeds the maximum allowed length \((?<limit>[\d,]+) tokens\)/i,
  ),
  window('SGLang', /maximum context length of (?<limit>[\d,]+) tokens/i),
  // Old versions of llama.cpp answer with 500.
  window(
    'llama.cpp',
    /request \((?<requested>[\d,]+) tokens\) exceeds the available context size \((?<limit>[\d,]+) tokens\)/i,
    [500],
  ),
  window('llama.cpp', /"n_prompt_tokens"\s*:\s*(?<requested>\d+).{0,80}"n_ctx"\s*:\s*(?<limit>\d+)/i, [500]),
  window('llama.cpp', /exceeds the available context size|context size has been exceeded/i, [500]),
  window('LM Studio', /n_keep: (?<requested>[\d,]+) >= n_ctx: (?<limit>[\d,]+)/i),
  window('LM Studio', /greater than the context length/i),
  window('Ollama', /prompt too long; exceeded (?:max )?context length/i),
  input('Copilot', /prompt token count of (?<requested>[\d,]+) exceeds the limit of (?<limit>[\d,]+)/i),
  window('Kimi', /exceeded model token limit(?:: (?<limit>[\d,]+)(?: \(requested: (?<requested>[\d,]+)\))?)?/i),
  window('MiniMax', /context window exceeds limit/i),
  window(
    'TGI',
    /`inputs` tokens \+ `max_new_tokens` must be <= (?<limit>[\d,]+)(?:\. Given: (?<input>[\d,]+) `inputs` tokens and (?<output>[\d,]+) `max_new_tokens`)?/i,
  ),
  input('TGI', /`inputs` must have less than (?<limit>[\d,]+) tokens(?:\. Given: (?<requested>[\d,]+))?/i),
  input('DashScope', /range of input length should be \[\d+, (?<limit>[\d,]+)\]/i),
  input('Zhipu, z.ai', /prompt exceeds max length/i),
  input(
    'Cohere',
    /too many tokens.{0,80}(?:cannot exceed|exceeds the limit of) (?<limit>[\d,]+)(?: - received (?<requested>[\d,]+))?/i,
  ),
  window('LiteLLM', /ContextWindowExceededError/),
  // OpenAI's SDKs write this when Cerebras or Mistral refuse without a body.
  input('Cerebras, Mistral', /^4(?:00|13)\s*(?:status code)?\s*\(no body\)/i),

  // Forms that recur among compatible servers.
  input(
    'vLLM of old',
    /\(length (?<requested>[\d,]+)\).{0,40}longer than the maximum model length of (?<limit>[\d,]+)/i,
  ),
  window('vLLM of old', /longer than the maximum model length of (?<limit>[\d,]+)/i),
  window('many', /maximum context length (?:is|of) (?<limit>[\d,]+)/i),
  window('many', /maximum context length/i),
  window('many', /context length is only (?<limit>[\d,]+) tokens/i),
  window('many', /prompt has (?<requested>[\d,]+) tokens?, but the configured context size is (?<limit>[\d,]+)/i),
  window('many', /requested tokens(?: \((?<requested>[\d,]+)\))? exceed context window of (?<limit>[\d,]+)/i),
  input('many', /tokens in request more than max tokens allowed/i),
  input(
    'many',
    /requested input length .{0,40}exceeds .{0,20}maximum|input length.{0,40}exceeds.{0,40}context length/i,
  ),
  window('many', /context[_ ](?:length|window)[_ ](?:limit[_ ])?exceeded/i),
  window(
    'many',
    /(?:input|prompt|request|tokens?) exceeds? (?:the )?(?:model\W{1,2}s )?(?:maximum )?context (?:length|window|limit|size)/i,
  ),
];

/** A request that alone exceeds a rate's whole period: only a smaller one helps. OpenAI says 429, Groq 413. */
export const RATE_BELOW_REQUEST =
  /\btokens per (?:min(?:ute)?|day)\b(?: \(TP[MD]\))?: Limit (?<limit>[\d,]+)(?:, Used [\d,]+)?, Requested (?<requested>[\d,]+)/i;

/** Hosts that refuse a too long prompt with only a status. Any other empty refusal must cause no compaction. */
export const EMPTY_REFUSALS: readonly Readonly<{ host: RegExp; statuses: readonly number[] }>[] = [
  { host: /(?:^|\.)cerebras\.ai$/, statuses: [400, 413] },
  { host: /(?:^|\.)mistral\.ai$/, statuses: [400, 413, 422] },
];
