import { parseArgs } from 'node:util';
import { z } from 'zod';
import { ROWS } from './catalogue.ts';

const USAGE = `npm run abuse -- [--only ROW[,ROW]] [--seed N] [--json]

Attacks the service, with a Postgres and a Redis of its own, and measures another tenant's requests during each attack.
Exit code 0: every row that this machine can run is ok; 1: at least one row is not ok; 2: wrong arguments.

Rows: ${ROWS.map(({ name }) => name).join(', ')}`;

const names = ROWS.map(({ name }) => name);

const optionsSchema = z.strictObject({
  only: z
    .string()
    .transform((text) => text.split(','))
    .refine((only) => only.every((name) => names.includes(name)), 'there is no such row')
    .optional(),
  seed: z.coerce.number().int().default(7),
  json: z.boolean().default(false),
});

export type AbuseOptions = z.infer<typeof optionsSchema>;

/** Reads the command line. Prints the usage and ends the process with 2 if it is wrong. */
export function parseArguments(args: readonly string[]): AbuseOptions {
  const text = { type: 'string' } as const;
  try {
    const { values } = parseArgs({ args: [...args], options: { only: text, seed: text, json: { type: 'boolean' } } });
    return optionsSchema.parse(values);
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    process.stderr.write(`${reason}\n\n${USAGE}\n`);
    process.exit(2);
  }
}
