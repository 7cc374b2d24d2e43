import { within } from './within.ts';

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
}>;

/** Throws or rejects with the reason why its part of the process is not ready. A text that it returns is a notice. */
type HealthCheck = () => unknown;

export type Health = Readonly<{
  /** Adds a check until it is disposed. Checks with the same name all count. */
  add: (name: string, check: HealthCheck) => Disposable;
  /** Runs all checks, none for longer than 2 s. */
  readiness: () => Promise<Readiness>;
}>;

const PATIENCE_MS = 2_000;

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
      // Failed checks come last, so that they win over others of the same name.
      const checks = Object.fromEntries(results.toSorted(([, a], [, b]) => Number(b.ok) - Number(a.ok)));
      return { ready: results.every(([, { ok }]) => ok), checks };
    },
  };
}

/**
 * Runs the check at most once per interval, and never twice at a time. Until then its last outcome holds.
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
    const notice = await within(PATIENCE_MS, (async () => check())());
    return { ok: true, ...(typeof notice === 'string' && { message: notice }) };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : 'no answer' };
  }
}
