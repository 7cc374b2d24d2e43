import { BatonError } from '../domain/errors.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** @throws BatonError `config_invalid` with the key that names the variable, if that is not set */
export function requireVariable(environment: Environment, name: string, key: string): string {
  const value = environment[name];
  if (value !== undefined && value !== '') return value;
  throw new BatonError('config_invalid', `${key}: the environment variable ${name} is not set`);
}

/** Headers whose values come from the environment. @throws BatonError `config_invalid` with the key of a header */
export function headersFrom(
  environment: Environment,
  names: Readonly<Record<string, string>>,
  key: string,
): Record<string, string> {
  const headers = Object.entries(names).map(([header, name]) => {
    const value = requireVariable(environment, name, `${key}.${header}`);
    if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return [header, value] as const;
    throw new BatonError('config_invalid', `${key}.${header}: ${name} holds what no header can`);
  });
  return Object.fromEntries(headers);
}
