import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

export const ROOT = path.join(import.meta.dirname, '../..');

const duration = z.string().regex(/^\d+(ms|s|m)$/);
const scalar = z.union([z.string(), z.number(), z.boolean()]);

const healthcheck = z.union([
  z.strictObject({ disable: z.literal(true) }),
  z.strictObject({
    test: z.tuple([z.enum(['CMD', 'CMD-SHELL'])], z.string()),
    interval: duration,
    timeout: duration,
    retries: z.number().int().positive(),
    start_period: duration.optional(),
  }),
]);

const service = z.strictObject({
  image: z.string(),
  build: z.string().optional(),
  command: z.array(z.string()).optional(),
  /** Null: the value comes from Compose's own environment. */
  environment: z.record(z.string().regex(/^[A-Z][A-Z0-9_]*$/), scalar.nullable()).optional(),
  env_file: z.tuple([z.strictObject({ path: z.literal('.env'), required: z.literal(false) })]).optional(),
  ports: z.array(z.string()).optional(),
  volumes: z.array(z.string().regex(/^[^:]+:\/[^:]+(:ro)?$/)).optional(),
  depends_on: z
    .record(
      z.string(),
      z.strictObject({ condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']) }),
    )
    .optional(),
  healthcheck: healthcheck.optional(),
  init: z.boolean().optional(),
  restart: z.enum(['no', 'always', 'on-failure', 'unless-stopped']),
  stop_grace_period: duration.optional(),
  shm_size: z.string().optional(),
  pids_limit: z.number().int().positive().optional(),
  mem_limit: z
    .string()
    .regex(/^\d+[mg]$/)
    .optional(),
  user: z.string().optional(),
  read_only: z.boolean().optional(),
  /** Options, too: Docker mounts `noexec` and for root, unless they say otherwise. */
  tmpfs: z.array(z.string().regex(/^\/[^:]+:[^:]+$/)).optional(),
  cap_drop: z.array(z.string()).optional(),
  cap_add: z.array(z.string()).optional(),
  security_opt: z.array(z.string()).optional(),
  container_name: z.string().optional(),
});

export type ComposeService = z.infer<typeof service>;

/** The part of the Compose specification that we use; `x-` keys hold shared settings. */
const composeSchema = z
  .object({
    name: z.string(),
    services: z.record(z.string(), service),
    volumes: z.record(z.string(), z.null()),
  })
  .catchall(z.unknown())
  .refine(
    (file) => Object.keys(file).every((key) => /^(name|services|volumes|x-.+)$/.test(key)),
    'unknown top level key',
  );

/** docker-compose.yml, validated, with `${NAME:-default}` replaced by this environment or the default. */
export function readComposeFile(environment: Readonly<Record<string, string>> = {}) {
  const text = readFileSync(path.join(ROOT, 'docker-compose.yml'), 'utf8');
  const interpolated = text.replaceAll(/\$\{(\w+)(?::-([^}]*))?\}/g, (whole, name: string, fallback?: string) => {
    const value = environment[name] || fallback;
    if (value === undefined) throw new Error(`${whole} has no default`);
    return value;
  });
  return composeSchema.parse(parse(interpolated, { merge: true }));
}

/**
 * The environment of a container; `dotEnv` is the file `.env`. As in Compose, `environment` overrides `env_file`, and
 * entries without a value come from the host, then from the file.
 */
export function environmentOf(
  { environment = {}, env_file }: ComposeService,
  host: Readonly<Record<string, string>> = {},
  dotEnv: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const entries = Object.entries(environment).map(
    ([name, value]) => [name, value ?? host[name] ?? dotEnv[name]] as const,
  );
  const own = entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]));
  return { ...(env_file === undefined ? {} : dotEnv), ...Object.fromEntries(own) };
}

/** Megabytes of `512m`, `1g` or Redis' `448mb`. */
export function toMegabytes(size: string | undefined): number {
  const [, count, unit] = /^(\d+)([mg])b?$/.exec(size ?? '') ?? [];
  return Number(count) * (unit === 'g' ? 1_024 : 1);
}

/** What a container may write: by the path in it, the options of a mount in memory, or null for a volume. */
export function writablePlaces({ tmpfs = [], volumes = [] }: ComposeService): ReadonlyMap<string, string[] | null> {
  const inMemory = tmpfs.map((mount) => {
    const [place = '', options = ''] = mount.split(':');
    return [place, options.split(',')] as const;
  });
  const kept = volumes.filter((volume) => !volume.endsWith(':ro')).map((volume) => volume.split(':')[1] ?? '');
  return new Map([...inMemory, ...kept.map((place) => [place, null] as const)]);
}

export function toMs(time: string): number {
  const [, count, unit] = /^(\d+)(ms|s|m)$/.exec(time) ?? [];
  return Number(count) * (unit === 'm' ? 60_000 : unit === 's' ? 1_000 : 1);
}
