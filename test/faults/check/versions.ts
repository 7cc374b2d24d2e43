import type { Snapshot } from './snapshot.ts';

/** A claim that a worker process said it has. */
export type SeenClaim = Readonly<{ runId: string; workerId: string }>;

/** Claims of runs that ask for a newer version than that of the process that took them. */
export function checkVersions({ versions }: Snapshot, claims: readonly SeenClaim[]): string[] {
  return claims.flatMap(({ runId, workerId }) => {
    const required = versions.requiredBy.get(runId);
    // A process may have registered several workers, each under its own name and more.
    const worker = versions.ofWorkers.find(({ id }) => id.startsWith(workerId));
    if (required === undefined || worker === undefined || worker.engine >= required) return [];
    return [`run ${runId} asks for version ${required}, and version ${worker.engine} took it`];
  });
}
