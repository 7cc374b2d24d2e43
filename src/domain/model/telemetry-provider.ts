/** The hosts of providers by their names in the conventions for generative AI. */
const NAME_OF_HOST: readonly (readonly [RegExp, string])[] = [
  [/^api\.openai\.com$/, 'openai'],
  [/\.openai\.azure\.com$/, 'azure.ai.openai'],
  [/\.(?:services|inference)\.ai\.azure\.com$/, 'azure.ai.inference'],
  [/^api\.anthropic\.com$/, 'anthropic'],
  [/^generativelanguage\.googleapis\.com$/, 'gcp.gemini'],
  [/(?:^|-)aiplatform\.googleapis\.com$/, 'gcp.vertex_ai'],
  [/^bedrock[\w.-]*\.amazonaws\.com$/, 'aws.bedrock'],
  [/^api\.x\.ai$/, 'x_ai'],
  [/^api\.groq\.com$/, 'groq'],
  [/^api\.mistral\.ai$/, 'mistral_ai'],
  [/^api\.deepseek\.com$/, 'deepseek'],
  [/^api\.perplexity\.ai$/, 'perplexity'],
  [/^api\.cohere\.(?:ai|com)$/, 'cohere'],
  [/^api\.moonshot\.(?:ai|cn)$/, 'moonshot_ai'],
  [/\.ml\.cloud\.ibm\.com$/, 'ibm.watsonx.ai'],
];

/** Baton's own names of providers that have another one there. */
const NAME_OF_OWN: Readonly<Record<string, string>> = { 'openai-chat': 'openai' };

/**
 * The name of a provider in traces, `gen_ai.provider.name`: the well-known one of the host that is asked, else the name
 * that the configuration gives it. (https://github.com/open-telemetry/semantic-conventions-genai, model/gen-ai/registry.yaml)
 * @param endpoint null: it is not known
 */
export function telemetryProvider(provider: string, endpoint: string | null): string {
  const host = endpoint !== null && URL.canParse(endpoint) ? new URL(endpoint).hostname : '';
  return NAME_OF_HOST.find(([form]) => form.test(host))?.[1] ?? NAME_OF_OWN[provider] ?? provider;
}
