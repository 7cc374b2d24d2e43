/**
 * Endings of names whose values are secret, in lower case and without separators: `DB_PASSWORD`, `authToken`,
 * `X-Api-Key`. A digit, or one of a few words, may follow.
 */
const SECRET_ENDING = new RegExp(
  `(?:${[
    'password|passwd|passphrase|passcode|pwd|secret|token|authorization|credential|cookie|jwt|bearer',
    '(?:api|access|secret|private|signing|encryption|master|auth|shared|account|subscription|service|ssh|deploy|license|storage|webhook)key',
  ].join('|')})s?(?:value|hash|header|confirm|confirmation|repeat)?\\d*$`,
);

/** Last words of names. They end many other words. */
const SECRET_WORDS = new Set(['pass', 'auth', 'otp', 'totp', 'cvv', 'cvc']);

/** Tokens that lead to the next page of a list, and the shell's working folder. */
const NO_SECRET = /(?:next|page|continuation|sync|cursor|pagination)token$|^(?:old)?pwd$/;

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== '');

/** Whether the name of a field, variable, header or parameter says that its value is secret, in any spelling. */
export function isSecretName(name: string): boolean {
  const words = wordsOf(name);
  const joined = words.join('');
  if (NO_SECRET.test(joined)) return false;
  return SECRET_WORDS.has(words.at(-1) ?? '') || SECRET_ENDING.test(joined);
}

/** Whether a text under a secret name is a secret: `maxTokens: "4096"` counts something. */
export const maySecretBe = (name: string, value: string): boolean =>
  value !== '' && !(/tokens$/i.test(name) && /^\d+$/.test(value));
