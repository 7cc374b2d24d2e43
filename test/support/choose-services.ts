import path from 'node:path';

/** `auto`: what is found first. `containers`: containers, unless a service is given. `embedded`: as on a bare machine. */
export type ServiceMode = 'auto' | 'containers' | 'embedded';

export type ServiceSource = 'given' | 'local' | 'container' | 'embedded' | 'none';

type Answering = 'given' | 'local' | null;

/** @throws Error for an unknown `BATON_TEST_SERVICES` */
export function serviceMode(environment: NodeJS.ProcessEnv): ServiceMode {
  const mode = environment['BATON_TEST_SERVICES'] ?? 'auto';
  if (mode === 'auto' || mode === 'containers' || mode === 'embedded') return mode;
  throw new Error(`BATON_TEST_SERVICES: expected auto, containers or embedded, found ${mode}`);
}

/**
 * Chooses what the tests run against.
 * @param answering the services that were found: by their variables, or on this machine
 * @throws Error for containers without Docker
 */
export function chooseServices(
  mode: ServiceMode,
  answering: Readonly<{ postgres: Answering; redis: Answering }>,
  hasDocker: boolean,
): Readonly<{ postgres: Exclude<ServiceSource, 'none'>; redis: Exclude<ServiceSource, 'embedded'> }> {
  if (mode === 'embedded') return { postgres: 'embedded', redis: 'none' };
  const isAll = answering.postgres === 'given' && answering.redis === 'given';
  if (mode === 'containers' && !hasDocker && !isAll) {
    throw new Error(
      'BATON_TEST_SERVICES=containers needs Docker: none of its sockets is here, and DOCKER_HOST is not set',
    );
  }
  const of = (found: Answering) => (mode === 'containers' && found === 'local' ? null : found);
  return {
    postgres: of(answering.postgres) ?? (hasDocker ? 'container' : 'embedded'),
    redis: of(answering.redis) ?? (hasDocker ? 'container' : 'none'),
  };
}

/** @returns why the tests cannot use a Postgres with this role, and what to do. Null: they can */
export function whyNotUsable({ name, createsDatabases, isSuperuser }: Role): string | null {
  if (createsDatabases || isSuperuser) return null;
  return `its role ${name} may not create databases: "alter role ${name} createdb", or name another one in BATON_TEST_DATABASE_URL`;
}

export type Role = Readonly<{ name: string; createsDatabases: boolean; isSuperuser: boolean }>;

/** The sockets at which Testcontainers looks for Docker: of the system, of Docker Desktop, and without root. */
export function dockerSockets(environment: NodeJS.ProcessEnv): readonly string[] {
  const { HOME: home, XDG_RUNTIME_DIR: runtime } = environment;
  return [
    '/var/run/docker.sock',
    ...(home === undefined
      ? []
      : [path.join(home, '.docker/run/docker.sock'), path.join(home, '.docker/desktop/docker.sock')]),
    ...(runtime === undefined ? [] : [path.join(runtime, 'docker.sock')]),
  ];
}
