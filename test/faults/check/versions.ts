import type { Snapshot } from './snapshot.ts';

/** A claim that a worker process said it has, and the version that the process said it is. */
export type SeenClaim = Readonly<{ runId: string; engine: number }>;

/** Claims of runs that ask for a newer version than that of the process that took them. */
export function checkVersions({ requiredVersions }: Snapshot, claims: readonly SeenClaim[]): string[] {
  return claims.flatMap(({ runId, engine }) => {
    const required = requiredVersions.get(runId);
    if (required === undefined || engine >= required) return [];
    return [`run ${runId} asks for version ${required}, and version ${engine} took it`];
  });
}
