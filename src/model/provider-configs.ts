import { z } from 'zod';
import { headersFromEnv, httpUrl, variable } from '../agents/tool-sources.ts';
import { BatonError } from '../domain/errors.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { readYaml } from '../platform/read-yaml.ts';

const KINDS = ['openai', 'openai-chat', 'openai-compatible', 'anthropic'] as const;

const BACKGROUND_MODES = ['auto', 'always', 'never'] as const;
export type BackgroundMode = (typeof BACKGROUND_MODES)[number];

/** A provider under a name of the configuration. */
const providerConfigSchema = z
  .strictObject({
    /** The protocol: OpenAI's Responses, its chat completions, compatible chat completions, or Anthropic's Messages. */
    kind: z.enum(KINDS),
    baseUrl: httpUrl.optional(),
    /** The variable with its key, which a self-hosted server may not need. */
    apiKeyEnv: variable.optional(),
    headersFromEnv: headersFromEnv.default({}),
    /** Whether answers are made in the background, so that another worker can read them. `auto`: by OpenAI itself. */
    background: z.enum(BACKGROUND_MODES).optional(),
  })
  .superRefine(({ kind, baseUrl, apiKeyEnv, background }, ctx) => {
    const needs = (path: string, message: string) => ctx.addIssue({ code: 'custom', path: [path], message });
    if (background !== undefined && kind !== 'openai') {
      needs('background', 'only a provider of kind openai makes answers in the background');
    }
    if (kind === 'openai-compatible') {
      if (baseUrl === undefined) needs('baseUrl', 'an openai-compatible provider is known by its URL');
    } else if (apiKeyEnv === undefined) {
      needs('apiKeyEnv', `a provider of kind ${kind} needs a key`);
    }
  });

const NAME = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'lower-case letters, digits and -, at most 32')
  .refine((name) => !/^simulated(-|$)/.test(name), 'this name is the simulator’s');

/** With its key and headers from the environment. */
export type ProviderConfig = Readonly<{
  name: string;
  kind: (typeof KINDS)[number];
  baseUrl?: string;
  apiKey?: string;
  headers: Readonly<Record<string, string>>;
  background?: BackgroundMode;
}>;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The providers of a file (YAML or JSON) with the key `providers`. Their models are `name/model`.
 * @throws BatonError `config_invalid` that names the invalid provider and key, or the variable that is not set
 */
export function loadProviders(file: string | undefined, environment: Environment): ProviderConfig[] {
  if (file === undefined) return [];
  const schema = z.strictObject({ providers: z.record(NAME, providerConfigSchema) });
  const parsed = schema.safeParse(readYaml(file, `providers file ${file}`));
  if (!parsed.success) {
    const problems = describeProblems(fileProblems(schema, parsed.error));
    throw new BatonError('config_invalid', `providers file ${file}: ${problems}`, { cause: parsed.error });
  }
  return Object.entries(parsed.data.providers).map(([name, config]) => {
    const { kind, baseUrl, apiKeyEnv, headersFromEnv: headers, background } = config;
    const setValue = (key: string, from: string): string => {
      const value = environment[from];
      if (value !== undefined && value !== '') return value;
      const what = `providers.${name}.${key}: the environment variable ${from} is not set`;
      throw new BatonError('config_invalid', `providers file ${file}: ${what}`);
    };
    return {
      name,
      kind,
      headers: Object.fromEntries(
        Object.entries(headers).map(([header, from]) => [header, setValue(`headersFromEnv.${header}`, from)]),
      ),
      ...(baseUrl !== undefined && { baseUrl }),
      ...(background !== undefined && { background }),
      ...(apiKeyEnv !== undefined && { apiKey: setValue('apiKeyEnv', apiKeyEnv) }),
    };
  });
}
