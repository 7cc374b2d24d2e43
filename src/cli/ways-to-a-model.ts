/** How real models are configured; for a person. */
export const WAYS_TO_A_MODEL = 'OPENAI_API_KEY, ANTHROPIC_API_KEY or BATON_PROVIDERS_FILE';
