import { readFileSync } from 'node:fs';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import {
  MODEL_REGISTRY,
  type ModelEntry,
  type ModelOverride,
  mergeModels,
  modelOverrideSchema,
} from '../domain/context/model-registry.ts';
import { BatonError } from '../domain/errors.ts';

/**
 * What is known of the models: the registry, then the overrides of a file (YAML or JSON, a list), then those given.
 * @throws BatonError `config_invalid` that names the entry and the key that are wrong
 */
export function loadModels(file: string | undefined, overrides: readonly ModelOverride[] = []): readonly ModelEntry[] {
  return mergeModels(MODEL_REGISTRY, [...(file === undefined ? [] : readOverrides(file)), ...overrides]);
}

function readOverrides(file: string): ModelOverride[] {
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
