/** A server's text for a model that takes no tools, or for tools that it does not offer. */
export type ToolRefusalRule = Readonly<{
  /** Origin of the text. Gateways and compatible servers copy it. */
  provider: string;
  text: RegExp;
}>;

/** Statuses of such a refusal; null: an error without one, as inside a stream. */
export const TOOL_REFUSAL_STATUSES: readonly (number | null)[] = [400, 404, 405, 422, 500, 501, null];

/** A server says it at the beginning; the rest may quote the prompt. */
export const MAX_TOOL_REFUSAL_CHARS = 300;

export const TOOL_REFUSAL_RULES: readonly ToolRefusalRule[] = [
  { provider: 'Ollama', text: /\bdoes not support tools\b/i },
  { provider: 'vLLM', text: /tool choice requires .{0,40}--tool-call-parser/i },
  { provider: 'llama.cpp', text: /\btools param requires --jinja\b/i },
  { provider: 'llama.cpp of old', text: /\bunsupported param: tools\b/i },
  { provider: 'OpenRouter', text: /no endpoints found that support tool use/i },
  { provider: 'OpenAI', text: /\btools is not supported in this model/i },
  { provider: 'OpenAI', text: /unsupported parameter: '?tools'? is not supported/i },
  { provider: 'Azure', text: /unrecognized request argument supplied: (?:tools|functions)\b/i },
  { provider: 'DeepSeek', text: /\bdoes not support function calling\b/i },
  { provider: 'Bedrock', text: /\bdoes(?:n.t| not) support tool use\b/i },
  { provider: 'Google, Mistral', text: /function calling is not enabled for\b/i },
  { provider: 'LiteLLM', text: /does not support parameters: [[{]['"]tools?['"]/i },
  // LM Studio and others render a template that comes with the model.
  { provider: 'templates', text: /template does(?:n.t| not) support (?:tools|tool (?:use|calls|calling))\b/i },
  {
    provider: 'DeepInfra, Groq and others',
    text: /\b(?:tools?|tool use|tool[ -]calling|function[ -]calling)\W{0,2} (?:is|are) not supported (?:with|by|for|in|on)\b/i,
  },
  {
    provider: 'many',
    text: /\bmodel\b.{0,80} does(?:n.t| not) support (?:tool[ -](?:use|calls|calling)|function[ -]call(?:s|ing))\b/i,
  },
];
