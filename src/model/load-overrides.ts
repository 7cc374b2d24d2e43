import { z } from 'zod';
import { type ModelOverride, modelOverrideSchema } from '../domain/context/limits/model-entry.ts';
import { BatonError } from '../domain/errors.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { readYaml } from '../platform/read-yaml.ts';

/** From a list in YAML or JSON. @throws BatonError `config_invalid` that names the invalid entry and key */
export function loadOverrides(file: string | undefined): readonly ModelOverride[] {
  if (file === undefined) return [];
  const schema = z.array(modelOverrideSchema);
  const parsed = schema.safeParse(readYaml(file, `models file ${file}`));
  if (parsed.success) return parsed.data;
  const problems = describeProblems(fileProblems(schema, parsed.error));
  throw new BatonError('config_invalid', `models file ${file}: ${problems}`, { cause: parsed.error });
}
