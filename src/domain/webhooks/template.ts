import { isWrittenNumber } from '../exact-json.ts';

const PLACE = /\{((?:body|headers)(?:\.[^{}\s]+)?)\}/g;

/** Values that a template may name: `{body.customer.id}`, `{body}` as JSON, `{headers.x-github-event}`. */
export type TemplateValues = Readonly<{ body: unknown; headers: Readonly<Record<string, string>> }>;

/**
 * A template with its places filled: a text as it is, anything else as JSON, nothing for a missing value. What is filled
 * in is not looked at for further places. Pure.
 */
export function fillTemplate(template: string, values: TemplateValues): string {
  return template.replaceAll(PLACE, (_, path: string) => {
    const value = valueAt(values, path.split('.'));
    if (value === undefined || value === null) return '';
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
}

/**
 * The same for a name of several parts. In its values `%` and each character that stands between the places is
 * percent-encoded, so that no value reads like two: `{body.repo}#{body.no}` has one name for each pair. Pure.
 */
export function fillName(template: string, values: TemplateValues): string {
  const between = new Set(`%${template.replaceAll(PLACE, '')}`.replaceAll(/[\p{L}\p{N}\s]/gu, ''));
  return template.replaceAll(PLACE, (place) =>
    Array.from(fillTemplate(place, values), (char) => (between.has(char) ? encodeChar(char) : char)).join(''),
  );
}

/** `encodeURIComponent` leaves some ASCII characters as they are. */
const encodeChar = (char: string): string =>
  char.charCodeAt(0) < 0x80
    ? `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
    : encodeURIComponent(char.toWellFormed());

function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => {
    if (typeof value !== 'object' || value === null || isWrittenNumber(value)) return undefined;
    if (!Object.hasOwn(value, key)) return undefined;
    return Reflect.get(value, key);
  }, values);
}
