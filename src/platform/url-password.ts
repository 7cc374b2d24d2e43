import { BatonError } from '../domain/errors.ts';

/**
 * A URL with a password in it, whatever characters that has: where a password comes from a variable of its own, nothing has
 * to escape it.
 * @param variable of the password, for the error
 * @throws BatonError `config_invalid` for a URL that has no host to give it to
 */
export function withPassword(url: string, password: string, variable: string): string {
  const parsed = new URL(url);
  parsed.password = encodeURIComponent(password);
  if (parsed.password !== '') return parsed.href;
  throw new BatonError(
    'config_invalid',
    `${variable}: the URL that it belongs to has no host: put the password into the URL`,
  );
}
