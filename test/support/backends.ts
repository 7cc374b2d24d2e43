import { inject } from 'vitest';

export type Backend = 'redis' | 'postgres';

/**
 * The backends that this file is run on: Postgres in the project `product`, Redis in the project `redis`, in the project
 * `system` both where this machine has a Redis. What is missing was reported when the services were looked for.
 */
export function availableBackends(): readonly Backend[] {
  const backends = inject('backends');
  return backends.length > 1 && inject('redisUrl') === null ? ['postgres'] : backends;
}

/** For what either backend can prove. */
export function anyBackend(): Backend {
  return availableBackends()[0] ?? 'postgres';
}
