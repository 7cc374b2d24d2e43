import { z } from '@hono/zod-openapi';
import { MAX_KEY_CHARS } from '../domain/declared.ts';
import { ID_PREFIXES, type IdKind, parseCallId, parseId } from '../domain/ids.ts';
import { isWithinJsonDepth } from '../domain/json-bounds.ts';
import { parseSessionRef, type SessionRef } from '../domain/run/session-ref.ts';
import { MAX_JSON_DEPTH } from '../domain/tunables.ts';

const KEY_PREFIX = 'key:';

/** Most characters of a session's id, or of `key:` and its key. */
export const MAX_SESSION_REF_CHARS = MAX_KEY_CHARS + KEY_PREFIX.length;

/** A public id, parsed to its UUID. */
export function idField(kind: IdKind) {
  const prefix = ID_PREFIXES[kind];
  return z
    .string()
    .transform((text, ctx): string => {
      const uuid = parseId(kind, text);
      if (uuid !== null) return uuid;
      const words = isKeyed(kind) ? refWords(kind) : `${prefix}_ and 32 lower-case hex digits`;
      ctx.addIssue({ code: 'custom', message: `not the id of a ${kind}: ${words}` });
      return z.NEVER;
    })
    .openapi({
      type: 'string',
      pattern: `^${prefix}_[0-9a-f]{32}$`,
      example: `${prefix}_0199c0ffee007000800000000000000a`,
    });
}

/** Kinds of objects to which their owner may give a key, with an example of one. Paths take `key:` and it as an id. */
const KEYED = { session: 'order-7', webhook: 'shop', schedule: 'daily' } as const satisfies Partial<
  Record<IdKind, string>
>;
type KeyedKind = keyof typeof KEYED;
const isKeyed = (kind: IdKind): kind is KeyedKind => Object.hasOwn(KEYED, kind);

/** A key may have any characters that Postgres can store. */
const KEY_PATTERN = `${KEY_PREFIX}[^\\u0000]{1,${MAX_KEY_CHARS}}`;

const refWords = (kind: KeyedKind): string => `${ID_PREFIXES[kind]}_ and 32 lower-case hex digits, or key: and its key`;

/** How the document describes what is named by its id or its key. */
const refDescription = (kind: KeyedKind) => ({
  type: 'string' as const,
  pattern: `^(${ID_PREFIXES[kind]}_[0-9a-f]{32}|${KEY_PATTERN})$`,
  description: `Id of the ${kind}, or \`key:\` and its key.`,
  examples: [`${ID_PREFIXES[kind]}_0199c0ffee007000800000000000000a`, `${KEY_PREFIX}${KEYED[kind]}`],
});

/** The id of a session, or `key:` and its key. */
export const sessionRefField = z
  .string()
  .max(MAX_SESSION_REF_CHARS)
  .transform((text, ctx): SessionRef => {
    const ref = parseSessionRef(text);
    if (ref !== null) return ref;
    ctx.addIssue({ code: 'custom', message: `not a session: ${refWords('session')}` });
    return z.NEVER;
  })
  .openapi(refDescription('session'));

/** The id of a tool call, parsed to the UUID of its message and its index among the parts. */
export const callIdField = z
  .string()
  .transform((text, ctx): Readonly<{ messageId: string; index: number }> => {
    const place = parseCallId(text);
    if (place !== null) return place;
    ctx.addIssue({
      code: 'custom',
      message: 'not the id of a tool call: call_, 32 lower-case hex digits, _ and a number',
    });
    return z.NEVER;
  })
  .openapi({
    type: 'string',
    pattern: '^call_[0-9a-f]{32}_[0-9]{1,6}$',
    example: 'call_0199c0ffee007000800000000000000a_1',
  });

/** The name that its owner gives a session, a webhook or a schedule, unique among those of the tenant. */
export const ownKeyField = textField(MAX_KEY_CHARS).min(1);

/** `key:` and the key of what is put, in place of an id. The handler gets the key. */
export const keyParams = z.strictObject({
  id: z
    .string()
    .max(KEY_PREFIX.length + MAX_KEY_CHARS)
    .transform((text, ctx): string => {
      const key = ownKeyField.safeParse(text.slice(KEY_PREFIX.length));
      if (text.startsWith(KEY_PREFIX) && key.success) return key.data;
      ctx.addIssue({ code: 'custom', message: `not key: and a key of 1 to ${MAX_KEY_CHARS} characters` });
      return z.NEVER;
    })
    .openapi({
      type: 'string',
      pattern: `^${KEY_PATTERN}$`,
      example: 'key:shop',
      param: { name: 'id', in: 'path', required: true },
    }),
});

/** An id in a path. Before a handler reads it, `key:` and a key there have become the id (keys-in-paths.ts). */
export const pathId = (kind: IdKind) =>
  idField(kind).openapi({
    ...(isKeyed(kind) && refDescription(kind)),
    param: { name: 'id', in: 'path', required: true },
  });

export const idParams = (kind: IdKind) => z.strictObject({ id: pathId(kind) });

const TIME = { error: 'a time as 2026-01-31T12:00:00Z, from 1970 to 9998' };

const LAST_TIME_MS = Date.UTC(9999, 0);

/** A time that Postgres and JavaScript write alike. */
export const timeField = z.iso
  .datetime({ offset: true, abort: true, ...TIME })
  .refine((time) => Date.parse(time) >= 0 && Date.parse(time) < LAST_TIME_MS, TIME);

/** Text that Postgres can store and that is valid UTF-8. Other text is refused rather than changed. */
export function textField(maxChars: number) {
  return z
    .string()
    .max(maxChars)
    .refine((text) => !text.includes('\u0000') && text.isWellFormed(), {
      error: 'must not contain NUL (U+0000) or lone surrogates',
    });
}

export const jsonField = z.unknown().refine(isWithinJsonDepth, {
  error: `at most ${MAX_JSON_DEPTH} levels deep`,
});

export function numberField(min: number, max: number, description: string) {
  return z
    .string()
    .transform((text, ctx): number => {
      const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
      if (value >= min && value <= max) return value;
      ctx.addIssue({ code: 'custom', message: `must be a whole number from ${min} to ${max}` });
      return z.NEVER;
    })
    .openapi({ type: 'integer', minimum: min, maximum: max, description });
}

const MAX_PAGE_SIZE = 200;

const DEFAULT_PAGE_SIZE = 50;

export const limitField = numberField(1, MAX_PAGE_SIZE, `Entries of a page; ${DEFAULT_PAGE_SIZE} by default.`)
  .optional()
  .transform((limit) => limit ?? DEFAULT_PAGE_SIZE);

/** A position in a session's transcript or event log. Only later entries are returned. */
export const afterField = numberField(0, Number.MAX_SAFE_INTEGER, 'Number after which the page begins.').optional();

export const beforeField = numberField(1, Number.MAX_SAFE_INTEGER, 'Number before which the page ends.');

/** Routes without parameters refuse any. */
export const noQuery = z.strictObject({});

const MAX_METADATA_KEYS = 16;

const MAX_METADATA_KEY_CHARS = 64;

export const MAX_METADATA_VALUE_CHARS = 512;

export const metadataField = z
  .preprocess(
    (value, ctx) => {
      if (typeof value !== 'object' || value === null) return value;
      // zod drops this key silently.
      if (Object.hasOwn(value, '__proto__')) {
        ctx.addIssue({ code: 'custom', path: ['__proto__'], message: 'not a possible key' });
      }
      // Checked before zod looks at any key.
      if (Object.keys(value).length > MAX_METADATA_KEYS) {
        ctx.addIssue({ code: 'custom', message: `at most ${MAX_METADATA_KEYS} keys` });
      }
      return value;
    },
    z.record(textField(MAX_METADATA_KEY_CHARS).min(1), textField(MAX_METADATA_VALUE_CHARS)),
  )
  .openapi({
    type: 'object',
    additionalProperties: { type: 'string', maxLength: MAX_METADATA_VALUE_CHARS },
    description: `At most ${MAX_METADATA_KEYS} keys of at most ${MAX_METADATA_KEY_CHARS} characters.`,
  });

export const titleField = textField(200);

/** The longest that a request may wait for a run. */
export const MAX_WAIT_MS = 300_000;
