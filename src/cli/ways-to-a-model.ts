/** Settings that configure real models, for people. */
export const WAYS_TO_A_MODEL = 'OPENAI_API_KEY, ANTHROPIC_API_KEY or BATON_PROVIDERS_FILE';
