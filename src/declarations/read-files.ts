import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { variable } from '../agents/tool-sources.ts';
import { FILES } from '../domain/declared.ts';
import { BatonError } from '../domain/errors.ts';
import { readYaml } from '../platform/read-yaml.ts';
import { type Declarations, type Declared, parseSchedules, parseWebhooks } from './declarations.ts';
import { declarationFolders } from './folders.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads each YAML file of the folders `webhooks` and `schedules` beside the agents' as a declaration. A folder that is not
 * there declares nothing.
 * @throws BatonError `config_invalid` that names file and key, also for a variable that is not set
 */
export function readDeclarationFiles(agentsDir: string, environment: Environment): Declarations {
  const { webhooks, schedules } = declarationFolders(agentsDir);
  return {
    declaredBy: FILES,
    webhooks: parseWebhooks(readFolder(webhooks).map((file) => withSecret(file, environment))),
    schedules: parseSchedules(readFolder(schedules)),
  };
}

function readFolder(folder: string): Declared<unknown>[] {
  if (!existsSync(folder)) return [];
  // Editors keep hidden files beside a file while it is edited.
  const files = readdirSync(folder).filter((name) => /^[^.].*\.ya?ml$/.test(name));
  return files.toSorted().map((name) => {
    const place = path.join(folder, name);
    return { place, fields: readYaml(place, place) };
  });
}

const secretSchema = z.looseObject({ secret: z.never().optional(), secretEnv: variable.optional() });

/** A file names the variable with the secret, and never the secret. */
function withSecret({ place, fields }: Declared<unknown>, environment: Environment): Declared<unknown> {
  const parsed = secretSchema.safeParse(fields);
  if (!parsed.success) {
    const message = `${place}: expected the fields of a webhook, and secretEnv with the name of a variable in place of secret`;
    throw new BatonError('config_invalid', message, { cause: parsed.error });
  }
  const { secretEnv, ...rest } = parsed.data;
  if (secretEnv === undefined) return { place, fields: rest };
  const secret = environment[secretEnv] ?? '';
  if (secret === '') throw new BatonError('config_invalid', `${place}: secretEnv: ${secretEnv} is not set`);
  return { place, fields: { ...rest, secret } };
}
