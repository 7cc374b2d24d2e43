import { findEndedAccess, hasApiKeys } from '../../store/around/api-keys.ts';
import type { Db } from '../../store/db/database.ts';

/** Most time until a long response learns that its caller has lost access. */
const CHECK_INTERVAL_MS = 2_000;

/** The id of a key or of a login. Null: a caller without either, before the first key is created. */
type AccessId = string | null;

export type KeyWatch = Readonly<{
  /**
   * Watches a key or login until the hold is disposed. `denied` is aborted when the key is revoked or expires, or the
   * login ends; for a caller without either, when the first key is created.
   */
  hold: (id: AccessId) => Disposable & Readonly<{ denied: AbortSignal }>;
}>;

type Entry = { readonly controller: AbortController; holds: number };

/** Checks the keys and logins of all requests in progress with one query. A failed check is repeated and ends no stream. */
export function createKeyWatch(
  db: Db,
  options: Readonly<{ onError?: (error: unknown) => void; checkIntervalMs?: number }> = {},
): KeyWatch {
  const entries = new Map<AccessId, Entry>();
  let isScheduled = false;
  const schedule = (): void => {
    if (isScheduled || entries.size === 0) return;
    isScheduled = true;
    setTimeout(() => {
      void check(db, entries)
        .catch((error: unknown) => options.onError?.(error))
        .finally(() => {
          isScheduled = false;
          schedule();
        });
    }, options.checkIntervalMs ?? CHECK_INTERVAL_MS).unref();
  };
  return {
    hold(id) {
      const entry = entries.get(id) ?? { controller: new AbortController(), holds: 0 };
      entries.set(id, entry);
      entry.holds++;
      schedule();
      let held = true;
      return {
        denied: entry.controller.signal,
        [Symbol.dispose]() {
          if (!held) return;
          held = false;
          entry.holds--;
          if (entry.holds === 0 && entries.get(id) === entry) entries.delete(id);
        },
      };
    },
  };
}

async function check(db: Db, entries: Map<AccessId, Entry>): Promise<void> {
  for (const id of await findDenied(db, [...entries.keys()])) {
    entries.get(id)?.controller.abort();
    entries.delete(id);
  }
}

async function findDenied(db: Db, held: readonly AccessId[]): Promise<AccessId[]> {
  const ids = held.filter((id) => id !== null);
  const ended: AccessId[] = ids.length === 0 ? [] : await findEndedAccess(db, ids);
  return held.includes(null) && (await hasApiKeys(db)) ? [...ended, null] : ended;
}
