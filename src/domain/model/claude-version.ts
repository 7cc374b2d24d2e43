/** `claude-opus-4-8`, `claude-sonnet-4-5-20250929`, `claude-opus-4`: two digits at most; more are a date. */
const FAMILY_FIRST = /^claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?:-|$)/;

/** `claude-3-7-sonnet-20250219`, `claude-3-haiku-20240307`: the names up to version 3.7. */
const VERSION_FIRST = /^claude-(\d)(?:[-.](\d))?-[a-z]/;

/** Version of an Anthropic model by its name, as a comparable number: 4.5 is 405. Null for any other name. */
export function claudeVersion(modelId: string): number | null {
  const [, major, minor = '0'] = FAMILY_FIRST.exec(modelId) ?? VERSION_FIRST.exec(modelId) ?? [];
  return major === undefined ? null : Number(major) * 100 + Number(minor);
}

/** From 5.1 on models always think, and refuse a request if the prompt of a thinking block has changed. */
export const bindsThinking = (modelId: string): boolean => (claudeVersion(modelId) ?? 0) >= 501;
