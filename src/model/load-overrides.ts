import { readFileSync } from 'node:fs';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { type ModelOverride, modelOverrideSchema } from '../domain/context/model-entry.ts';
import { BatonError } from '../domain/errors.ts';

/**
 * What a file (YAML or JSON, a list) says of models.
 * @throws BatonError `config_invalid` that names the entry and the key that are wrong
 */
export function loadOverrides(file: string | undefined): readonly ModelOverride[] {
  if (file === undefined) return [];
  const parsed = z.array(modelOverrideSchema).safeParse(readYaml(file));
  if (parsed.success) return parsed.data;
  throw new BatonError('config_invalid', `models file ${file}: ${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
}

function readYaml(file: string): unknown {
  try {
    return parseYaml(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new BatonError('config_invalid', `models file ${file} cannot be read as YAML`, { cause: error });
  }
}
