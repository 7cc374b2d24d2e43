import { sql } from 'kysely';
import type pg from 'pg';
import { z } from 'zod';
import { HISTORY_READ_INTERVAL_MS } from '../../domain/tunables.ts';
import type { Db } from './database.ts';

const readingSchema = z.object({ epoch: z.string(), lsn: z.string().nullable() });
type Reading = Readonly<z.infer<typeof readingSchema>>;

/** Which history of the database a process sees. It changes when Postgres goes back in time. */
export type History = Readonly<{
  /** Null: not known yet. */
  epoch: () => string | null;
  /** Reads it now. @throws database errors */
  readEpoch: () => Promise<string | null>;
  /** Calls the listener when the history has changed, until it is disposed. */
  onChange: (listener: () => void) => Disposable;
}>;

export type HistoryWatch = Omit<History, 'readEpoch'> &
  Readonly<{
    /** Reads the history on a new connection, before it is used. Does nothing before `begin`. */
    readOn: (client: pg.ClientBase) => Promise<void>;
    /** Watches until it is disposed, which comes before the end of `db`. The schema has to be there. */
    begin: (db: Db) => Promise<AsyncDisposable>;
  }>;

const UNKNOWN: History = {
  epoch: () => null,
  readEpoch: async () => null,
  onChange: () => ({ [Symbol.dispose]: () => undefined }),
};

const histories = new WeakMap<Db, History>();

/** The history of a database as its process sees it. One that is not watched has an unknown epoch. */
export const historyOf = (db: Db): History => histories.get(db) ?? UNKNOWN;

/** @param onError called for a failed read of the timer, which goes on */
export function createHistoryWatch(onError: (error: unknown) => void): HistoryWatch {
  const listeners = new Set<() => void>();
  let last: Reading | null = null;
  let begun = 0;
  let taken = 0;
  // An answer that comes after that of a later read says what was before it.
  const take = async (read: Promise<Reading>): Promise<void> => {
    begun += 1;
    const no = begun;
    const now = await read;
    if (no < taken) return;
    taken = no;
    const before = last;
    last = now;
    if (before === null || before.epoch === now.epoch) return;
    for (const listener of listeners) listener();
  };
  const watch: HistoryWatch = {
    epoch: () => last?.epoch ?? null,
    onChange(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    async readOn(client) {
      if (last === null) return;
      const text = 'select baton_read_history($1, $2) as history';
      const asked = client.query<{ history: unknown }>(text, [last.epoch, last.lsn]);
      await take(asked.then(({ rows }) => readingSchema.parse(rows[0]?.history)));
    },
    async begin(db) {
      const read = (): Promise<void> => take(readHistory(db, last));
      await read();
      const readEpoch = async (): Promise<string | null> => {
        await read();
        return watch.epoch();
      };
      histories.set(db, { epoch: watch.epoch, readEpoch, onChange: watch.onChange });
      let reading: Promise<void> | null = null;
      const timer = setInterval(() => {
        reading ??= read()
          .catch(onError)
          .finally(() => {
            reading = null;
          });
      }, HISTORY_READ_INTERVAL_MS).unref();
      return {
        async [Symbol.asyncDispose]() {
          clearInterval(timer);
          await reading;
        },
      };
    },
  };
  return watch;
}

async function readHistory(db: Db, last: Reading | null): Promise<Reading> {
  const { rows } = await sql<{ history: unknown }>`
    select baton_read_history(${last?.epoch ?? null}, ${last?.lsn ?? null}) as history`.execute(db);
  return readingSchema.parse(rows[0]?.history);
}

/** Begins another history by hand: after a restore that Postgres does not show, such as a snapshot of its disk. */
export async function beginHistory(db: Db): Promise<string> {
  await readHistory(db, null);
  const { rows } = await sql<{ epoch: string }>`
    update history set epoch = left(gen_random_uuid()::text, 8) returning epoch`.execute(db);
  return z.string().parse(rows[0]?.epoch);
}
