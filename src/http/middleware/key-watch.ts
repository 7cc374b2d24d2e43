import { findInvalidKeys, hasApiKeys } from '../../store/api-keys.ts';
import type { Db } from '../../store/database.ts';

/** Most time until a long response learns that its caller has lost access. */
const CHECK_INTERVAL_MS = 2_000;

/** Null: a caller without a key, before the first key is created. */
type KeyId = string | null;

export type KeyWatch = Readonly<{
  /**
   * Watches a key until the hold is disposed. `denied` is aborted when the key is revoked or expires; for a caller
   * without a key, when the first one is created.
   */
  hold: (keyId: KeyId) => Disposable & Readonly<{ denied: AbortSignal }>;
}>;

type Entry = { readonly controller: AbortController; holds: number };

/** Checks the keys of all requests in progress with one query. A failed check is repeated and ends no stream. */
export function createKeyWatch(
  db: Db,
  options: Readonly<{ onError?: (error: unknown) => void; checkIntervalMs?: number }> = {},
): KeyWatch {
  const entries = new Map<KeyId, Entry>();
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
    hold(keyId) {
      const entry = entries.get(keyId) ?? { controller: new AbortController(), holds: 0 };
      entries.set(keyId, entry);
      entry.holds++;
      schedule();
      let held = true;
      return {
        denied: entry.controller.signal,
        [Symbol.dispose]() {
          if (!held) return;
          held = false;
          entry.holds--;
          if (entry.holds === 0 && entries.get(keyId) === entry) entries.delete(keyId);
        },
      };
    },
  };
}

async function check(db: Db, entries: Map<KeyId, Entry>): Promise<void> {
  for (const keyId of await findDenied(db, [...entries.keys()])) {
    entries.get(keyId)?.controller.abort();
    entries.delete(keyId);
  }
}

async function findDenied(db: Db, held: readonly KeyId[]): Promise<KeyId[]> {
  const keyIds = held.filter((keyId) => keyId !== null);
  const invalid: KeyId[] = keyIds.length === 0 ? [] : await findInvalidKeys(db, keyIds);
  return held.includes(null) && (await hasApiKeys(db)) ? [...invalid, null] : invalid;
}
