import type { PendingKind } from '../domain/run/run.ts';

/** The runs that a worker has in hand, by their tenants. */
export type TenantsAtWork = Readonly<{
  /** Notes a run until the returned object is disposed, or until the run is noted again. */
  begin: (runId: string, kind: PendingKind, tenantId: string) => Disposable;
  has: (runId: string) => boolean;
  /** Runs of each tenant whose work is of this kind. */
  counts: (kind: PendingKind) => ReadonlyMap<string, number>;
}>;

type Entry = Readonly<{ kind: PendingKind; tenantId: string }>;

export function createTenantsAtWork(): TenantsAtWork {
  const runs = new Map<string, Entry>();
  return {
    begin(runId, kind, tenantId) {
      const entry = { kind, tenantId };
      runs.set(runId, entry);
      return {
        [Symbol.dispose]() {
          // The next step of the run may have begun before the end of this one.
          if (runs.get(runId) === entry) runs.delete(runId);
        },
      };
    },
    has: (runId) => runs.has(runId),
    counts(kind) {
      const counts = new Map<string, number>();
      for (const { kind: of, tenantId } of runs.values()) {
        if (of === kind) counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1);
      }
      return counts;
    },
  };
}
