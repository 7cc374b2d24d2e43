import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import type { Authenticate, ConsoleAccess } from '../http/http-env.ts';
import { fileProblems } from '../platform/file-problems.ts';

const MAX_URL_CHARS = 2_000;

/** A path of the same host counts, too. An address of a script would run in the console. */
function isWebAddress(text: string): boolean {
  return URL.canParse(text, 'http://localhost') && /^https?:$/.test(new URL(text, 'http://localhost').protocol);
}

const accessSchema = z.strictObject({
  authenticate: z.custom<Authenticate>((value) => typeof value === 'function', 'expected a function').exactOptional(),
  loginUrl: z
    .string()
    .max(MAX_URL_CHARS)
    .refine(isWebAddress, 'expected a path such as /login, or an address with http or https')
    .exactOptional(),
});

/** Checks the option `console` of a program. @throws BatonError `config_invalid` that names the field */
export function readConsoleAccess(access: ConsoleAccess): ConsoleAccess {
  const read = accessSchema.safeParse(access);
  if (read.success) return read.data;
  const problems = fileProblems(accessSchema, read.error).map(
    ({ path, message }) => `console${path === '' ? '' : `.${path}`}: ${message}`,
  );
  throw new BatonError('config_invalid', problems.join('; '));
}
