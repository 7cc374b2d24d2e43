import { CODE_PREFIX } from '../agents/tool-sources.ts';
import type { Log } from '../platform/log.ts';

/** A name counts as missing for this long after a run has asked for it. It is logged again only after the same time. */
const REMEMBERED_MS = 60_000;
const MAX_REMEMBERED = 1_000;

/** The tools in code that runs have asked for and this worker does not have. */
export type MissingCode = Readonly<{
  note: (runId: string, names: readonly string[]) => void;
  /** A sentence with the tools of the last minute. Undefined: none. */
  words: () => string | undefined;
}>;

export function createMissingCode(log: Log, nowMs: () => number = () => performance.now()): MissingCode {
  const askedAtMs = new Map<string, number>();
  const loggedAtMs = new Map<string, number>();
  return {
    note(runId, missing) {
      const now = nowMs();
      const names = missing.map((name) => name.slice(CODE_PREFIX.length));
      for (const name of names) remember(askedAtMs, name, now);
      const due = names.filter((name) => now - (loggedAtMs.get(name) ?? Number.NEGATIVE_INFINITY) >= REMEMBERED_MS);
      if (due.length === 0) return;
      for (const name of due) remember(loggedAtMs, name, now);
      log('warn', { event: 'agent_code_missing', runId, tools: due });
    },
    words() {
      const now = nowMs();
      const names = [...askedAtMs].flatMap(([name, atMs]) => (now - atMs < REMEMBERED_MS ? [name] : []));
      return names.length === 0 ? undefined : `runs wait for a worker with the tools ${names.sort().join(', ')}`;
    },
  };
}

function remember(times: Map<string, number>, name: string, now: number): void {
  times.delete(name);
  times.set(name, now);
  const oldest = times.keys().next();
  if (times.size > MAX_REMEMBERED && !oldest.done) times.delete(oldest.value);
}

/** The tools in code of an agent that the worker does not have. */
export function codeMissingIn(tools: readonly unknown[], code: readonly string[]): string[] {
  return tools.flatMap((tool) =>
    typeof tool === 'string' && tool.startsWith(CODE_PREFIX) && !code.includes(tool) ? [tool] : [],
  );
}
