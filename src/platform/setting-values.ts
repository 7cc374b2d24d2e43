import { isIPv6 } from 'node:net';
import { z } from 'zod';

/** A whole number within bounds. Of a variable, only a text of digits counts as a number, unlike with a coercion. */
export const wholeNumber = (minimum: number, maximum: number) => {
  const words = `expected a whole number from ${minimum} to ${maximum}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value),
    z.number(words).int(words).min(minimum, words).max(maximum, words),
  );
};

const MAX_AMOUNT = 1_000_000_000;
const AMOUNT_WORDS = `expected a number from 0 to ${MAX_AMOUNT}`;
/** An amount of money, with or without decimals. */
export const amount = z.preprocess(
  (value) => (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value),
  z.number(AMOUNT_WORDS).min(0, AMOUNT_WORDS).max(MAX_AMOUNT, AMOUNT_WORDS),
);

/** Host names, as a variable separated by commas. Ports are refused, because they would never match. */
export const hostNames = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((host) => host.trim()) : value),
  z.array(
    z
      .string()
      .toLowerCase()
      .refine((host) => /^[a-z0-9._-]+$/.test(host) || isIPv6(host), 'names of hosts, without ports'),
  ),
);

/** `host`, or `host:port` for one port of it. */
export const hostsAndPorts = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((host) => host.trim()) : value),
  z.array(
    z
      .string()
      .toLowerCase()
      .refine(
        (host) => /^([a-z0-9._-]+|\[[0-9a-f:.]+\](?=:))(:[1-9]\d{0,4})?$/.test(host) || isIPv6(host),
        'hosts, or host:port',
      ),
  ),
);

const ORIGIN_WORDS = 'origins of pages, such as https://app.example, without a path';
/** Origins of pages, as a variable separated by commas. */
export const origins = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(',').map((origin) => origin.trim()) : value),
  z
    .array(z.string().refine((text) => /^https?:/.test(text) && URL.parse(text)?.origin === text, ORIGIN_WORDS))
    .max(100),
);

/** A URL with one of the protocols. */
export const url = (...protocols: string[]) =>
  z.url({ protocol: new RegExp(`^(${protocols.join('|')})$`), error: `a URL with ${protocols.join(':// or ')}://` });

/**
 * URL of Postgres. The parameter `schema` is Prisma's. Ignored without a word, it would let the tables end up in another
 * schema.
 */
export const databaseUrl = url('postgres', 'postgresql').refine(
  (text) => !URL.canParse(text) || !new URL(text).searchParams.has('schema'),
  'a URL without schema=, which Postgres does not know: set BATON_SCHEMA',
);

const TRACE_URL_WORDS = 'a URL with http:// or https:// that has {traceId} in it';
/** URL of a page, with `{traceId}` in place of the trace's id. */
export const traceUrl = z
  .string()
  .refine((text) => /^https?:\/\//.test(text) && text.includes('{traceId}') && URL.canParse(text), TRACE_URL_WORDS);

/** `true` or `false`, as a variable or in a file. */
export const yesOrNo = z.stringbool().or(z.boolean());
