/**
 * `claude-opus-4-8`, `claude-sonnet-4-5-20250929`, `claude-opus-4`: a minor version has one or two
 * digits; more are a date.
 */
const FAMILY_FIRST = /^claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?:-|$)/;

/** `claude-3-7-sonnet-20250219`, `claude-3-haiku-20240307`: how they were named up to version 3.7. */
const VERSION_FIRST = /^claude-(\d)(?:[-.](\d))?-[a-z]/;

/** The version of a model of Anthropic's by its name, as a number to compare: 4.5 is 405. Null for any other name. */
export function claudeVersion(modelId: string): number | null {
  const [, major, minor = '0'] = FAMILY_FIRST.exec(modelId) ?? VERSION_FIRST.exec(modelId) ?? [];
  return major === undefined ? null : Number(major) * 100 + Number(minor);
}

/**
 * Since version 5.1 models always think, and bind each thinking block to the prompt that it answered: they refuse the
 * request once that has changed.
 */
export const bindsThinking = (modelId: string): boolean => (claudeVersion(modelId) ?? 0) >= 501;
