import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';

/** Reads what a model or a client passed to a tool. @throws BatonError `invalid_request` that names each wrong field */
export function parseInput<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw new BatonError('invalid_request', z.prettifyError(parsed.error));
  return parsed.data;
}
