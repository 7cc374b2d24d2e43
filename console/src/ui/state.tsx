import type { ReactNode } from 'react';

type Look = Readonly<{ color: string; dot: string; words?: string }>;

const NEUTRAL: Look = { color: 'text-dim', dot: 'dot hollow' };
const RUNNING: Look = { color: 'text-running', dot: 'dot live' };
const WAITING: Look = { color: 'text-waiting', dot: 'dot' };
const FAILED: Look = { color: 'text-failed', dot: 'dot' };

/** One look for each state, wherever it stands: of sessions, runs, steps, calls and workers. */
const LOOKS: Readonly<Record<string, Look>> = {
  idle: { ...NEUTRAL, dot: 'dot hollow' },
  queued: NEUTRAL,
  pending: NEUTRAL,
  busy: { ...RUNNING, words: 'running' },
  running: RUNNING,
  cancelling: { ...RUNNING, color: 'text-cancelled' },
  requires_action: { ...WAITING, words: 'needs an answer' },
  waiting: WAITING,
  awaiting_approval: { ...WAITING, words: 'needs approval' },
  awaiting_output: { ...WAITING, words: 'needs an output' },
  approval: { ...WAITING, words: 'needs approval' },
  output: { ...WAITING, words: 'needs an output' },
  input: { ...WAITING, words: 'asks for more' },
  unknown_outcome: { color: 'text-unknown', dot: 'dot', words: 'outcome unknown' },
  unknown: { color: 'text-unknown', dot: 'dot', words: 'outcome unknown' },
  completed: { color: 'text-dim', dot: 'dot' },
  incomplete: { ...FAILED, dot: 'dot hollow' },
  failed: FAILED,
  error: FAILED,
  retried: { ...FAILED, dot: 'dot hollow' },
  dead: FAILED,
  alive: { color: 'text-running', dot: 'dot' },
  cancelled: { color: 'text-cancelled', dot: 'dot' },
  superseded: { color: 'text-cancelled', dot: 'dot hollow' },
  denied: { color: 'text-cancelled', dot: 'dot' },
};

/** A state by dot and word. */
export function State({ state, children }: Readonly<{ state: string; children?: ReactNode }>): ReactNode {
  const { color, dot, words = state.replaceAll('_', ' ') } = LOOKS[state] ?? NEUTRAL;
  return (
    <span className={`inline-flex min-w-0 items-center gap-1.5 ${color}`}>
      <span className={dot} aria-hidden="true" />
      <span className="truncate">{children ?? words}</span>
    </span>
  );
}
