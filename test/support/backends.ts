import { inject } from 'vitest';

export type Backend = 'redis' | 'postgres';

/** The backends that can be tested here; what is missing was reported when the services were looked for. */
export function availableBackends(): Backend[] {
  return inject('redisUrl') === null ? ['postgres'] : ['redis', 'postgres'];
}
