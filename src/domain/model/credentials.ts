const REMOVED = '[removed]';

/** It has a digit or an asterisk, or is long. Not "key: messages", nor the page in "find your key at https://…". */
const SECRET = String.raw`(?!\/\/)(?=[^\s"'\`,;]*[\d*]|[^\s"'\`,;]{20})[^\s"'\`,;]{3,}`;

const RULES: readonly (readonly [RegExp, string])[] = [
  // https://user:password@host
  [/:\/\/[^\s/?#]*@/g, `://${REMOVED}@`],
  // ?api_key=…&sig=…
  [
    /([?&;][\w.-]{0,40}(?:key|token|secret|sig|signature|password|passwd|auth|credential)[\w.-]{0,40}=)[^\s&#"'<>)]+/gi,
    `$1${REMOVED}`,
  ],
  // Prefixes of providers' keys; a JWT.
  [
    /\b(?:(?:sk|pk|rk|gsk|xai|hf|r8|pplx|nvapi|gh[oprsu]|glpat|github_pat|xox[abp]|csk|tgp|fw|baton)[-_](?=[\w-]*[\d*])[\w*.…-]{4,}|AIza[\w-]{10,}|A[KS]IA[A-Z\d]{12,}|ya29\.[\w-]{4,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)/g,
    REMOVED,
  ],
  [/\b(bearer|basic)\s+(?=\S*[\d=*_]|\S{20})[\w\-.~+/=:*]{6,}/gi, `$1 ${REMOVED}`],
  // "API key provided: …", "x-api-key: …", "password=…"
  [
    new RegExp(
      String.raw`(?<![a-z])((?:key|token|secret|password|passwd|authorization|credentials?)\b["']?(?: [a-z]{2,10}){0,2}\s*(?:\([^)]{0,40}\)\s*)?[:=]\s*["'\`]?)${SECRET}`,
      'gi',
    ),
    `$1${REMOVED}`,
  ],
];

/** Shorter secrets may be ordinary words. */
const MIN_SECRET_CHARS = 6;

/** Removes known secrets, and everything that stands where providers and gateways put one. */
export function withoutCredentials(text: string, secrets: readonly string[] = []): string {
  const known = secrets.filter((secret) => secret.length >= MIN_SECRET_CHARS).sort((a, b) => b.length - a.length);
  const rest = known.reduce((left, secret) => left.replaceAll(secret, REMOVED), text);
  return RULES.reduce((left, [pattern, replacement]) => left.replace(pattern, replacement), rest);
}
