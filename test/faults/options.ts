import { parseArgs } from 'node:util';
import { z } from 'zod';
import { PROFILE_NAMES, SESSION_PROFILES } from '../../simulator/profiles.ts';
import { BREAKAGES } from './breakages.ts';
import { FAULTS, GROUPS } from './catalogue.ts';

const USAGE = `npm run faults -- [--only NAME[,NAME]] [--backend redis|postgres] [--runs N] [--sessions N] [--seed N] [--profile NAME] [--json] [--log FILE]
npm run faults -- --broken NAME [--backend …] [--runs N] [--sessions N] [--seed N] [--log FILE]
    breaks a promise in a copy of the product: the suite must find out

Faults: ${FAULTS.map(({ name }) => name).join(', ')}
Groups of them: ${[...GROUPS.keys()].join(', ')}
Profiles, endpoints that refuse more than their protocol does: ${SESSION_PROFILES.join(', ')}
Broken: ${BREAKAGES.map(({ name }) => name).join(', ')}`;

const count = z.coerce.number().int().positive();
const names = FAULTS.map(({ name }) => name);

const optionsSchema = z
  .strictObject({
    only: z
      .string()
      .transform((text) => text.split(',').flatMap((name) => GROUPS.get(name)?.map((fault) => fault.name) ?? name))
      .refine((only) => only.every((name) => names.includes(name)), 'there is no such fault')
      .optional(),
    backend: z.enum(['redis', 'postgres']).optional(),
    /** Per fault and backend. */
    runs: count.default(200),
    sessions: count.default(20),
    seed: z.coerce.number().int().default(7),
    /** The ways of the model's endpoint. */
    profile: z
      .enum(PROFILE_NAMES)
      .refine((name) => SESSION_PROFILES.includes(name))
      .optional(),
    json: z.boolean().default(false),
    /** File to which all log lines of the processes are appended. */
    log: z.string().optional(),
    broken: z.enum(BREAKAGES.map(({ name }) => name)).optional(),
  })
  .refine(({ broken, only }) => broken === undefined || only === undefined, {
    error: 'what is broken says under which faults that must show: --broken goes without --only',
  })
  .refine(({ broken, json }) => broken === undefined || !json, {
    error: '--broken tells people what it has found: it goes without --json',
  });

type Options = z.infer<typeof optionsSchema>;
export type SuiteOptions = Omit<Options, 'broken'>;

/** Parses the command line. On a wrong one it prints the reason and the usage, and ends the process. */
export function parseArguments(args: readonly string[]): Options {
  const text = { type: 'string' } as const;
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        only: text,
        backend: text,
        runs: text,
        sessions: text,
        seed: text,
        profile: text,
        json: { type: 'boolean' },
        broken: text,
        log: text,
      },
    });
    return optionsSchema.parse(values);
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    process.stderr.write(`${reason}\n\n${USAGE}\n`);
    process.exit(2);
  }
}
