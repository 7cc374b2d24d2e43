import { within } from './within.ts';

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
}>;

/** Throws, or rejects, with the reason why its part of the process is not ready. */
type HealthCheck = () => unknown;

export type Health = Readonly<{
  /** Adds a check of a part of this process, until it is disposed. Where several have a name, each of them counts. */
  add: (name: string, check: HealthCheck) => Disposable;
  /** Asks every part, none for longer than 2 s. */
  readiness: () => Promise<Readiness>;
}>;

const PATIENCE_MS = 2_000;

/** What the parts of a process say about whether they can work. */
export function createHealth(): Health {
  const parts = new Set<Readonly<{ name: string; check: HealthCheck }>>();
  return {
    add(name, check) {
      const part = { name, check };
      parts.add(part);
      return { [Symbol.dispose]: () => void parts.delete(part) };
    },
    async readiness() {
      const results = await Promise.all([...parts].map(async ({ name, check }) => [name, await ask(check)] as const));
      // A failed one comes last, so that it stays.
      const checks = Object.fromEntries(results.toSorted(([, a], [, b]) => Number(b.ok) - Number(a.ok)));
      return { ready: results.every(([, { ok }]) => ok), checks };
    },
  };
}

/**
 * The check at most so often: until then it has the outcome that it had last, and only one is under way at a time.
 * @param nowMs a monotonic clock
 */
export function atMostEvery(
  intervalMs: number,
  check: () => Promise<void>,
  nowMs: () => number = () => performance.now(),
): () => Promise<void> {
  let outcome: Promise<void> | null = null;
  let dueAtMs = Number.POSITIVE_INFINITY;
  return () => {
    if (outcome !== null && nowMs() < dueAtMs) return outcome;
    dueAtMs = Number.POSITIVE_INFINITY;
    outcome = check().finally(() => {
      dueAtMs = nowMs() + intervalMs;
    });
    return outcome;
  };
}

async function ask(check: HealthCheck): Promise<{ ok: boolean; message?: string }> {
  try {
    await within(PATIENCE_MS, (async () => check())());
    return { ok: true };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : 'no answer' };
  }
}
