import { isWrittenNumber, objectOf, parseExactly } from '../exact-json.ts';
import { REMOVED } from './credentials.ts';
import { isSecretName, maySecretBe } from './secret-names.ts';

/** Removes keys and passwords from a text. */
export type Clean = (text: string) => string;

/**
 * The value without secrets: those that `clean` finds in its texts, and the values of fields whose names say that they
 * are secret, also where a text is JSON. Numbers stay, because they mostly count tokens, but for passwords and codes.
 */
export function withoutSecrets<T>(value: T, clean: Clean): T;
export function withoutSecrets(value: unknown, clean: Clean): unknown {
  if (typeof value === 'string') return ofText(value, clean);
  if (Array.isArray(value)) return ofPair(value) ?? value.map((item) => withoutSecrets(item, clean));
  if (!isObject(value)) return value;
  const namesSecret = NAME_FIELDS.some((field) => isSecretText(value[field]));
  return objectOf(
    Object.entries(value).map(([name, item]) => {
      const isSecret = isSecretName(name) || (namesSecret && VALUE_FIELDS.has(name));
      return [name, isSecret ? ofSecretField(name, item, clean) : withoutSecrets(item, clean)];
    }),
  );
}

/** Lists of headers and variables: `{ name: 'X-Api-Key', value: '…' }`. */
const NAME_FIELDS = ['name', 'key', 'header', 'field', 'variable'];
const VALUE_FIELDS = new Set(['value', 'values', 'content']);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !isWrittenNumber(value);

const isSecretText = (value: unknown): boolean => typeof value === 'string' && isSecretName(value);

/** `['X-Api-Key', '…']`. */
const ofPair = (value: readonly unknown[]): unknown[] | null =>
  value.length === 2 && isSecretText(value[0]) && typeof value[1] === 'string' ? [value[0], REMOVED] : null;

/** Of passwords and codes, which may be numbers. */
const IS_CODE = /(?:pass\w*|pwd|otp|cvv|cvc|secret)\d*$/i;

function ofSecretField(name: string, value: unknown, clean: Clean): unknown {
  if (typeof value === 'string') return maySecretBe(name, value) ? REMOVED : value;
  if (typeof value === 'number' || isWrittenNumber(value)) return IS_CODE.test(name) ? REMOVED : value;
  if (Array.isArray(value)) return value.map((item) => ofSecretField(name, item, clean));
  if (!isObject(value)) return value;
  if (isSchema(value)) return withoutSecrets(value, clean);
  return objectOf(Object.entries(value).map(([field, item]) => [field, ofSecretField(name, item, clean)]));
}

const SCHEMA_TYPES = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']);

/** The schema of a field is no secret. */
const isSchema = (value: Readonly<Record<string, unknown>>): boolean =>
  !('value' in value) &&
  (SCHEMA_TYPES.has(String(value['type'])) || ['$ref', 'anyOf', 'oneOf', 'allOf', 'enum'].some((key) => key in value));

function ofText(text: string, clean: Clean): string {
  const cleaned = clean(text);
  const parsed = parseJson(cleaned);
  if (!isObject(parsed)) return cleaned;
  const rest = JSON.stringify(withoutSecrets(parsed, clean));
  // A text without secrets keeps its spaces.
  return rest === JSON.stringify(parsed) ? cleaned : rest;
}

function parseJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return parseExactly(text);
  } catch {
    return null;
  }
}
