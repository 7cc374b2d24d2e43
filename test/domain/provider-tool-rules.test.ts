import { describe, expect, it } from 'vitest';
import { judgeProviderError } from '../../src/domain/model/provider-errors.ts';
import { MAX_TOOL_REFUSAL_CHARS, TOOL_REFUSAL_RULES } from '../../src/domain/model/provider-tool-rules.ts';

const judge = (status: number | null, text: string, codes: readonly string[] = []) =>
  judgeProviderError({ status, codes, texts: [text], host: '', isEmpty: false }).class;

/** Each rule by its provider, with what that one writes. */
const ROWS: readonly (readonly [provider: string, status: number | null, text: string, code?: string])[] = [
  ['Ollama', 400, 'registry.ollama.ai/library/gemma3:4b does not support tools', 'api_error'],
  ['vLLM', 400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'],
  ['llama.cpp', 500, 'tools param requires --jinja flag', 'server_error'],
  ['llama.cpp of old', 500, 'Unsupported param: tools', 'server_error'],
  ['OpenRouter', 404, 'No endpoints found that support tool use. To learn more about provider routing, visit: …'],
  [
    'OpenAI',
    400,
    'tools is not supported in this model. For a list of supported models, refer to https://platform.openai.com/docs/guides/function-calling#models-supporting-function-calling.',
  ],
  ['OpenAI', 400, "Unsupported parameter: 'tools' is not supported with this model.", 'unsupported_parameter'],
  ['Azure', 404, 'Unrecognized request argument supplied: tools', 'invalid_request_error'],
  ['DeepSeek', 400, 'deepseek-reasoner does not support Function Calling', 'invalid_request_error'],
  ['Bedrock', 400, "This model doesn't support tool use in streaming mode."],
  ['Google, Mistral', 400, 'Function calling is not enabled for models/gemma-3-27b-it'],
  [
    'LiteLLM',
    400,
    "litellm.UnsupportedParamsError: together_ai does not support parameters: {'tools': [{'type': 'function', …",
  ],
  ['templates', 400, "The model's chat template does not support tools."],
  ['DeepInfra, Groq and others', 405, 'Tool calling is not supported for model: mistralai/Mistral-Small-24B'],
  ['many', 422, 'The model acme/tiny does not support tool calling'],
];

describe('a refusal of tools', () => {
  it.each(
    ROWS.map(([provider, status, text, code]) => ({ provider, status, text, codes: code === undefined ? [] : [code] })),
  )('is told by the words of $provider ($status): $text', ({ provider, status, text, codes }) => {
    expect(judge(status, text, codes)).toBe('tools_unsupported');
    const rules = TOOL_REFUSAL_RULES.filter((rule) => rule.text.test(text));
    expect(rules.map((rule) => rule.provider)).toContain(provider);
  });

  it('has a row for each rule', () => {
    for (const { provider, text } of TOOL_REFUSAL_RULES) {
      const own = ROWS.filter(([named, , words]) => named === provider && text.test(words));
      expect(own.length, `${provider} ${text}`).toBeGreaterThan(0);
    }
  });

  it.each<[status: number, text: string, other: string]>([
    [429, 'x does not support tools', 'rate_limited'],
    [401, 'This key does not support tools', 'auth'],
    [400, 'This model does not support assistant message prefill.', 'malformed_history'],
    [400, 'This model does not support image inputs', 'invalid_request'],
    [400, "Unsupported parameter: 'temperature' is not supported with this model.", 'invalid_request'],
    [400, 'tools.0.function.parameters: invalid schema', 'invalid_request'],
    [400, 'An assistant message with tool_calls must be followed by tool messages', 'malformed_history'],
    [
      400,
      `prompt is refused: ${'x'.repeat(MAX_TOOL_REFUSAL_CHARS)} the user wrote that it does not support tools`,
      'invalid_request',
    ],
  ])('is none with %s: %s', (status, text, other) => {
    expect(judge(status, text)).toBe(other);
  });
});
