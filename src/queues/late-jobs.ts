import type { JobsOptions } from 'bullmq';
import type { JobKind } from '../domain/run/job.ts';

/** A job as BullMQ takes it. */
export type Entry = Readonly<{ name: string; data: unknown; opts: JobsOptions & Readonly<{ jobId: string }> }>;

const TRY_EVERY_MS = 1_000;

/** Of one queue. What is beyond is left to the reconciler, which finds every run without a job within seconds. */
const MAX_HELD = 1_000;

/**
 * Adds jobs again that a queue has refused, once it takes jobs: the runs go on at once, without a worker that looks for
 * them. A job that was added meanwhile by another process is ignored by its id.
 */
export function addLater(
  send: (kind: JobKind, entries: readonly Entry[]) => Promise<void>,
): Disposable & Readonly<{ add: (kind: JobKind, entries: readonly Entry[]) => void }> {
  const held = new Map<JobKind, Map<string, Entry>>();
  let timer: NodeJS.Timeout | null = null;
  let isClosed = false;
  const plan = (): void => {
    if (timer !== null || isClosed || held.size === 0) return;
    timer = setTimeout(async () => {
      await Promise.all([...held].map(([kind, entries]) => addAgain(kind, entries)));
      timer = null;
      plan();
    }, TRY_EVERY_MS).unref();
  };
  const addAgain = async (kind: JobKind, entries: Map<string, Entry>): Promise<void> => {
    const [first, ...others] = entries.values();
    if (first === undefined) return void held.delete(kind);
    try {
      // One job shows whether the queue takes any.
      await send(kind, [first]);
      entries.delete(first.opts.jobId);
      await send(kind, others);
      for (const { opts } of others) entries.delete(opts.jobId);
      if (entries.size === 0) held.delete(kind);
    } catch {
      // Still refused: the next try follows.
    }
  };
  return {
    add(kind, entries) {
      const ofKind = held.get(kind) ?? new Map<string, Entry>();
      held.set(kind, ofKind);
      for (const entry of entries) if (ofKind.size < MAX_HELD) ofKind.set(entry.opts.jobId, entry);
      plan();
    },
    [Symbol.dispose]() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
