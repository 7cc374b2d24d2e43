import { z } from 'zod';
import { didYouMean } from '../domain/did-you-mean.ts';
import { BatonError } from '../domain/errors.ts';
import { inSchema } from './database-schema.ts';
import { fileProblems } from './file-problems.ts';
import { readYaml } from './read-yaml.ts';
import { configSchema, type Settings, VARIABLES } from './settings.ts';

/** The settings as a program passes them: by their names, all optional (docs/settings.md). */
export type GivenSettings = Readonly<Partial<z.input<typeof configSchema>>>;
/** The settings, and the path of the configuration file if there is one. */
export type Config = Readonly<Settings & { queuePrefix: string; configFile?: string }>;

/** Names the optional configuration file (YAML or JSON). */
const FILE_VARIABLE = 'BATON_CONFIG';

/** Variables of tests and of clients share the prefix, but are no settings. */
const OTHER_VARIABLES = /^BATON_(TEST_.*|URL|API_KEY|WEBHOOK_SECRET)$/;

/**
 * The configuration from environment and file, the environment first. Parsed once, frozen.
 * @throws BatonError `config_invalid` that names every unknown variable or key and every bad value
 */
export function loadConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const variables = new Set([...Object.values(VARIABLES), FILE_VARIABLE]);
  const unknown = Object.keys(environment).filter(
    (name) => name.startsWith('BATON_') && !variables.has(name) && !OTHER_VARIABLES.test(name),
  );
  if (unknown.length > 0) {
    const named = unknown.map((name) => name + meantVariable(name, variables));
    throw new BatonError('config_invalid', `unknown settings: ${named.join(', ')}`);
  }
  const fromEnvironment = Object.entries(VARIABLES).flatMap(([key, variable]) => {
    const value = environment[variable];
    return value === undefined || value === '' ? [] : [[key, value] as const];
  });
  const configFile = environment[FILE_VARIABLE] || undefined;
  const parsed = configSchema.safeParse({
    ...(configFile === undefined ? {} : readConfigFile(configFile)),
    ...Object.fromEntries(fromEnvironment),
  });
  if (parsed.success) {
    return Object.freeze({ ...toConfig(parsed.data), ...(configFile !== undefined && { configFile }) });
  }
  const problems = fileProblems(configSchema, parsed.error).map(({ path, message }) => {
    const variable = VARIABLES[path.split('.')[0] as keyof Settings];
    return variable === undefined ? `${FILE_VARIABLE}: ${message}` : `${variable} (${path}): ${message}`;
  });
  throw new BatonError('config_invalid', problems.join('; '), { cause: parsed.error });
}

/**
 * The configuration of a program that gives its settings as an object. The environment is not read.
 * @throws BatonError `config_invalid` that names every unknown or wrong setting
 */
export function configOf(settings: GivenSettings): Config {
  const parsed = configSchema.safeParse(settings);
  if (parsed.success) return Object.freeze(toConfig(parsed.data));
  const problems = fileProblems(configSchema, parsed.error).map(({ path, message }) =>
    path === '' ? message : `${path}: ${message}`,
  );
  throw new BatonError('config_invalid', problems.join('; '), { cause: parsed.error });
}

/**
 * Suggests a variable for an unknown one. The name is also tried without the prefix, which the databases' variables
 * lack.
 */
const meantVariable = (name: string, variables: ReadonlySet<string>): string =>
  didYouMean(name, variables) || didYouMean(name.replace(/^BATON_/, ''), variables);

function toConfig(settings: Settings): Config {
  const { schema } = settings;
  const queuePrefix = settings.queuePrefix ?? (schema === undefined ? 'baton' : `baton_${schema}`);
  const config = withPasswords({ ...settings, queuePrefix });
  const { databaseUrl } = config;
  return withRenewableLease({
    ...config,
    ...(databaseUrl !== undefined && { databaseUrl: inSchema(databaseUrl, schema) }),
  });
}

/** Puts the passwords into the URLs, so that connecting needs only those. */
function withPasswords(config: Config): Config {
  const place = (url: 'databaseUrl' | 'redisUrl', key: 'databasePassword' | 'redisPassword') => {
    const [connectionUrl, password] = [config[url], config[key]];
    return connectionUrl === undefined || password === undefined
      ? {}
      : { [url]: withPassword(connectionUrl, password, VARIABLES[key]) };
  };
  return { ...config, ...place('databaseUrl', 'databasePassword'), ...place('redisUrl', 'redisPassword') };
}

/** Refuses a lease that would end before its second heartbeat: every long step would lose it. */
function withRenewableLease(config: Config): Config {
  if (config.heartbeatIntervalMs * 2 <= config.leaseDurationMs) return config;
  throw new BatonError(
    'config_invalid',
    `${VARIABLES.heartbeatIntervalMs} (${config.heartbeatIntervalMs}) must be at most half of ${VARIABLES.leaseDurationMs} (${config.leaseDurationMs})`,
  );
}

function readConfigFile(path: string): object {
  const what = `${FILE_VARIABLE}: ${path}`;
  const content = z.record(z.string(), z.unknown()).safeParse(readYaml(path, what) ?? {});
  if (content.success) return content.data;
  throw new BatonError('config_invalid', `${what}: not settings by their names`, { cause: content.error });
}

/**
 * The URL with this password, escaped, so that a password in a variable of its own needs no escaping.
 * @param variable of the password, for the error
 * @throws BatonError `config_invalid` for a URL without a host
 */
function withPassword(url: string, password: string, variable: string): string {
  const parsed = new URL(url);
  parsed.password = encodeURIComponent(password);
  if (parsed.password !== '') return parsed.href;
  throw new BatonError(
    'config_invalid',
    `${variable}: the URL that it belongs to has no host: put the password into the URL`,
  );
}
