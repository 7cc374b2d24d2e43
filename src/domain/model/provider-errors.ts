import { type OverflowNumbers, rateBelowRequest, readOverflowText } from './overflow-limit.ts';
import {
  isBeforeRequest,
  type ProviderErrorClass,
  type ProviderErrorRule,
  REFUSALS,
  RULES_AFTER_OVERFLOW,
  RULES_BEFORE_OVERFLOW,
} from './provider-error-rules.ts';
import { EMPTY_REFUSALS, type OverflowRule } from './provider-overflow-rules.ts';
import { MAX_TOOL_REFUSAL_CHARS, TOOL_REFUSAL_RULES, TOOL_REFUSAL_STATUSES } from './provider-tool-rules.ts';
import { MAX_RETRY_AFTER_MS } from './retry-policy.ts';

export type ProviderErrorSignals = Readonly<{
  /** HTTP status; null: no response came, or the error came inside one. */
  status: number | null;
  /** The provider's own codes and types, lower case, the outermost first. */
  codes: readonly string[];
  /** Each of bounded length, the outermost first. Only for matching: `providerFailureOf` makes the stored text. */
  texts: readonly string[];
  /** Host that the request went to, lower case; '' if unknown. */
  host: string;
  isEmpty: boolean;
  /** The pause that the body asks for. */
  pauseMs?: number | null;
}>;

export type ProviderErrorVerdict = Readonly<{ class: ProviderErrorClass; overflow: OverflowNumbers | null }>;

/**
 * Classifies a failed model call, in this order: a rate that the request alone exceeds, refused tools, codes, rates and
 * quotas, texts of overflows, everything else. Without any response it is `transport`.
 */
export function judgeProviderError(signals: ProviderErrorSignals): ProviderErrorVerdict {
  const never = firstOf(signals.texts, rateBelowRequest);
  if (never !== null) return { class: 'input_overflow', overflow: never };
  if (refusesTools(signals)) return only('tools_unsupported');
  if (isDayUsedUp(signals)) return only('quota');
  const before = RULES_BEFORE_OVERFLOW.find((rule) => matches(rule, signals));
  // The code says that it is an overflow, and the text says which one and by how much.
  if (before?.class === 'input_overflow') return byText(signals, () => true) ?? only(before.class);
  if (before !== undefined) return only(before.class);
  const overflow = byText(signals, ({ alsoWithin }) => counts(signals.status, [...REFUSALS, ...(alsoWithin ?? [])]));
  if (overflow !== null) return overflow;
  if (isEmptyRefusal(signals)) return only('input_overflow');
  const after = RULES_AFTER_OVERFLOW.find((rule) => matches(rule, signals));
  return only(after?.class ?? (isClientError(signals.status) ? 'invalid_request' : 'transport'));
}

/** A quota of the day. Where only words say so, a pause that is worth waiting for counts more. */
function isDayUsedUp({ status, codes, texts, pauseMs = null }: ProviderErrorSignals): boolean {
  if (status !== 429) return false;
  if (codes.some((code) => /per_?day/.test(code))) return true;
  const isWorthWaiting = pauseMs !== null && pauseMs <= MAX_RETRY_AFTER_MS;
  return !isWorthWaiting && texts.some((text) => DAY.test(text));
}

const DAY =
  /\b(?:per[\s_-]?day|daily (?:limit|quota|usage)|(?:limit|quota) (?:of|for) (?:the|this|to)?\s?day|free-models-per-day|[rt]pd)\b/i;

/** Checked before the codes: OpenAI's code says that a parameter is wrong, and only the text that it is the tools. */
function refusesTools({ status, texts }: ProviderErrorSignals): boolean {
  if (!counts(status, TOOL_REFUSAL_STATUSES)) return false;
  const beginnings = texts.map((text) => text.slice(0, MAX_TOOL_REFUSAL_CHARS));
  return TOOL_REFUSAL_RULES.some((rule) => beginnings.some((text) => rule.text.test(text)));
}

function byText({ texts }: ProviderErrorSignals, admits: (rule: OverflowRule) => boolean): ProviderErrorVerdict | null {
  const readings = texts.map((text) => readOverflowText(text, admits)).filter((reading) => reading !== null);
  const reading = readings.find(({ numbers }) => numbers !== null) ?? readings[0];
  return reading === undefined ? null : { class: reading.class, overflow: reading.numbers };
}

function matches(rule: ProviderErrorRule, { status, codes, texts }: ProviderErrorSignals): boolean {
  const { code, text, textWithin } = rule;
  if (status !== null && rule.status?.includes(status) === true) return true;
  if (code !== undefined && codes.some((candidate) => code.test(candidate))) return true;
  return (
    text !== undefined && counts(status, textWithin ?? REFUSALS) && texts.some((candidate) => text.test(candidate))
  );
}

const counts = (status: number | null, within: readonly (number | null)[]): boolean => within.includes(status);

function isEmptyRefusal({ status, host, isEmpty }: ProviderErrorSignals): boolean {
  if (!isEmpty || status === null) return false;
  return EMPTY_REFUSALS.some((refusal) => refusal.host.test(host) && refusal.statuses.includes(status));
}

const isClientError = (status: number | null): boolean => status !== null && status >= 400 && status < 500;

const only = (errorClass: ProviderErrorClass): ProviderErrorVerdict => ({ class: errorClass, overflow: null });

function firstOf<T>(texts: readonly string[], read: (text: string) => T | null): T | null {
  for (const text of texts) {
    const found = read(text);
    if (found !== null) return found;
  }
  return null;
}

/** If a 404 names no model, the path itself may not exist. */
const NO_SUCH_ADDRESS =
  'The provider does not know this address: its base URL is wrong, or it does not offer this model.';

const NO_REQUEST = 'The request could not be made in the form of this provider.';

/** The message for a user, before the provider's own words. */
export function providerErrorMessage(errorClass: ProviderErrorClass, { codes, texts }: ProviderErrorSignals): string {
  if (errorClass === 'invalid_request' && isBeforeRequest(codes)) return NO_REQUEST;
  const namesModel = codes.includes('model_not_found') || texts.some((text) => /\bmodels?\b/i.test(text));
  return errorClass === 'model_unavailable' && !namesModel ? NO_SUCH_ADDRESS : PROVIDER_ERROR_MESSAGES[errorClass];
}

export const PROVIDER_ERROR_MESSAGES: Readonly<Record<ProviderErrorClass, string>> = {
  auth: 'The provider refused the API key.',
  byte_overflow: 'The request has more bytes, or more media, than the provider takes.',
  content_policy: 'The provider refused the content.',
  input_overflow: 'The request is larger than the model’s context window.',
  invalid_request: 'The provider refused the request as invalid.',
  malformed_history: 'The provider refused the history of the conversation as invalid.',
  model_unavailable: 'The provider does not offer this model.',
  output_reserve_overflow: 'The room asked for the answer is larger than the provider allows.',
  overloaded: 'The provider is overloaded.',
  quota: 'The account at the provider has no quota left.',
  rate_limited: 'The provider limits the rate of requests.',
  silent_truncation: 'The provider cut the request without saying so.',
  timeout: 'The provider did not answer in time.',
  tools_unsupported: 'The model takes no tools there.',
  transport: 'The connection to the provider failed or its answer broke off.',
};
