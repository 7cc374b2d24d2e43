import { isSecretName, maySecretBe } from './secret-names.ts';

/** Stands where a secret stood. */
export const REMOVED = '[removed]';

/** It has a digit or an asterisk, or is long. Not "key: messages", nor the page in "find your key at https://…". */
const SECRET = String.raw`(?!\/\/)(?=[^\s"'\`,;]*[\d*]|[^\s"'\`,;]{20})[^\s"'\`,;]{3,}`;

type Rule = readonly [RegExp, string];

const RULES: readonly Rule[] = [
  [/-----BEGIN ([A-Z\d ]*PRIVATE KEY(?: BLOCK)?)-----[\s\S]*?(?:-----END \1-----|$)/g, REMOVED],
  // https://user:password@host
  [/:\/\/[^\s/?#]*@/g, `://${REMOVED}@`],
  // curl -u user:password; two numbers are a user and a group
  [/(\s(?:-u|--user)[ =]["']?)(?!\d+:\d+\b)[^\s:"']+:[^\s"']+/g, `$1${REMOVED}`],
  // Cookie: a=b; c=d
  [/\b((?:set-)?cookie\s{0,4}:\s{0,4})[^\s=:"'`\\]{1,200}=[^\r\n"'`\\]*/gi, `$1${REMOVED}`],
  // Authorization: Token …
  [
    /\b(authorization\\{0,7}["']?\s{0,4}[:=]\s{0,4}\\{0,7}["']?)(?:bearer|basic|token|api-?key|digest|negotiate|ntlm|hawk|oauth|signature|aws4-[\w-]+)\s+(?:\w+="[^"]*",?\s*|[^\r\n"'`\\])+/gi,
    `$1${REMOVED}`,
  ],
  // Prefixes of keys of providers, of others and of Baton; a JWT.
  [
    /\b(?:(?:sk|pk|rk|gsk|xai|hf|r8|pplx|nvapi|gh[oprsu]|glpat|github_pat|xox[abeprs]|xapp|csk|tgp|fw|pypi|dckr_pat|shp(?:at|ss)|tvly|lin_api|figd|sbp|do[opr]_v1|gl(?:sa|c)|whsec|baton|batontoken)[-_](?=[\w-]*[\d*])[\w*.…-]{4,}|npm_[A-Za-z\d]{20,}|SG\.[\w-]{8,}\.[\w-]{8,}|hvs\.[\w-]{20,}|GOCSPX-[\w-]{20,}|dapi[a-f\d]{32}|AIza[\w-]{10,}|A[KS]IA[A-Z\d]{12,}|ya29\.[\w-]{4,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)/g,
    REMOVED,
  ],
  [/\b(bearer|basic)\s+(?=\S*[\d=*_]|\S{20})[\w\-.~+/=:*]{6,}/gi, `$1 ${REMOVED}`],
  // --token …
  [
    new RegExp(String.raw`(\s--?[\w-]{0,40}(?:token|secret|password|passwd|key)\s+["']?)${SECRET}`, 'gi'),
    `$1${REMOVED}`,
  ],
  // "API key provided: …", "x-api-key: …", "password: …"
  [
    new RegExp(
      String.raw`((?:(?:(?<![a-z])|api|access|secret|private|auth|signing)key|token|secret|password|passwd|authorization|credentials?)\b["']?(?: [a-z]{2,10}){0,2}\s*(?:\([^)]{0,40}\)\s*)?[:=]\s*["'\`]?)${SECRET}`,
      'gi',
    ),
    `$1${REMOVED}`,
  ],
];

/** A name with its sign. Quotes may be escaped, where a text is JSON in JSON. */
const NAME = /(?<![\w.-])([\w.-]{1,80})(\\{0,7}["']?\s{0,4}(?:=>|[:=])\s{0,4})/g;
const QUOTED = /"(?:\\[\s\S]|[^"\\])*"|'(?:\\.|[^'\\\n])*'|(\\+")(?:(?!\1)[\s\S])*?\1/y;
/** Not a variable, nor a call of a function. */
const BARE = /(?![$%<{([]|(?:true|false|null|none|undefined)\b|[\w.]*\()[^\s"'`;&|,#<>(){}\\]+/y;

/** Removes the values of `password: "…"`, `"password":"…"`, `\"password\":\"…\"`, `PGPASSWORD=…` and `?api_key=…`. */
function withoutNamedSecrets(text: string): string {
  let rest = '';
  let done = 0;
  for (const { index, 0: found, 1: name = '', 2: sign = '' } of text.matchAll(NAME)) {
    const at = index + found.length;
    if (at < done || !(isSecretName(name) || isSecretParameter(name, text[index - 1]))) continue;
    const value = matchAt(QUOTED, text, at) ?? (sign === '=' ? matchAt(BARE, text, at) : null);
    if (value === null) continue;
    const [quote = ''] = /^\\*["']/.exec(value) ?? [];
    const inner = value.slice(quote.length, value.length - quote.length);
    rest += text.slice(done, at) + quote + (maySecretBe(name, inner) ? REMOVED : inner) + quote;
    done = at + value.length;
  }
  return rest + text.slice(done);
}

/** In a URL, signatures and keys of any kind open what it names. */
const isSecretParameter = (name: string, before: string | undefined): boolean =>
  before !== undefined && '?&;'.includes(before) && /(?:key|sig|signature)$/i.test(name);

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? null;
}

/** Shorter secrets may be ordinary words. */
const MIN_SECRET_CHARS = 6;

/** Removes known secrets, and everything that stands where people, providers and gateways put one. */
export function withoutCredentials(text: string, secrets: readonly string[] = []): string {
  const secretsByLength = secrets
    .filter((secret) => secret.length >= MIN_SECRET_CHARS)
    .sort((a, b) => b.length - a.length);
  const rest = secretsByLength.reduce((left, secret) => left.replaceAll(secret, REMOVED), text);
  return RULES.reduce((left, [pattern, replacement]) => left.replace(pattern, replacement), withoutNamedSecrets(rest));
}
