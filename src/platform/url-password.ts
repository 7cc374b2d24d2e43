import { BatonError } from '../domain/errors.ts';

/**
 * The URL with this password, escaped, so that a password in a variable of its own needs no escaping.
 * @param variable of the password, for the error
 * @throws BatonError `config_invalid` for a URL without a host
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
