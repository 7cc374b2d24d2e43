import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isTerminalRun, RUN_STATUSES, RUN_TRANSITIONS } from '../../src/domain/run/run.ts';
import { isSettledCall, TOOL_CALL_STATES, TOOL_CALL_TRANSITIONS } from '../../src/domain/transcript/tool-call.ts';

type Machine = Readonly<{
  name: string;
  states: readonly string[];
  transitions: Readonly<Record<string, readonly string[]>>;
  initial: string;
  terminal: readonly string[];
  /** The one way out of a terminal state: an operator retries the work. */
  reopens?: Readonly<Record<string, readonly string[]>>;
}>;

const MACHINES: readonly Machine[] = [
  {
    name: 'run',
    states: RUN_STATUSES,
    transitions: RUN_TRANSITIONS,
    initial: 'queued',
    terminal: RUN_STATUSES.filter(isTerminalRun),
    reopens: { failed: ['queued'] },
  },
  {
    name: 'tool call',
    states: TOOL_CALL_STATES,
    transitions: TOOL_CALL_TRANSITIONS,
    initial: 'pending',
    terminal: TOOL_CALL_STATES.filter(isSettledCall),
  },
];

describe.each(MACHINES)('the state machine of a $name', ({ states, transitions, initial, terminal, reopens }) => {
  it('has every state in its table, and none that leads to itself', () => {
    expect(Object.keys(transitions)).toEqual(states);
    for (const state of states) expect(transitions[state]).not.toContain(state);
  });

  it('leaves a terminal state only for a retry that an operator asks for', () => {
    for (const state of terminal) expect(transitions[state]).toEqual(reopens?.[state] ?? []);
  });

  it('reaches every state from its first one, and a terminal one from every state', () => {
    expect(reachable(transitions, initial)).toEqual(new Set(states));
    for (const state of states) {
      expect([...reachable(transitions, state)].some((each) => terminal.includes(each))).toBe(true);
    }
  });
});

it('the states in which a run and a call have ended', () => {
  expect(RUN_STATUSES.filter(isTerminalRun)).toEqual(['completed', 'failed', 'cancelled', 'incomplete']);
  expect(TOOL_CALL_STATES.filter(isSettledCall)).toEqual(['completed', 'error', 'denied']);
});

function reachable(transitions: Readonly<Record<string, readonly string[]>>, start: string): Set<string> {
  const seen = new Set([start]);
  for (const state of seen) for (const next of transitions[state] ?? []) seen.add(next);
  return seen;
}

describe('the rules that a crash or a cancel leans on', () => {
  it('a run that is handed back or recovered is queued again, but a cancelling one never is: it ends', () => {
    expect(RUN_TRANSITIONS.running).toContain('queued');
    expect(RUN_TRANSITIONS.cancelling).toEqual(['cancelled', 'completed', 'failed']);
  });

  it('a call starts once: it goes back only where its tool never began, and runs again only when recorded as unknown', () => {
    const startsFrom = TOOL_CALL_STATES.filter((from) => TOOL_CALL_TRANSITIONS[from].includes('running'));
    expect(startsFrom).toEqual(['pending', 'unknown']);
    expect(TOOL_CALL_TRANSITIONS.running).toContain('pending');
    expect(TOOL_CALL_TRANSITIONS.unknown).not.toContain('pending');
  });

  it('a call that waits for approval does not run before it is approved', () => {
    expect(TOOL_CALL_TRANSITIONS.awaiting_approval).toEqual(['pending', 'denied', 'error']);
    expect(TOOL_CALL_TRANSITIONS.awaiting_output).toEqual(['pending', 'denied', 'error']);
  });

  it('a run that waits is nobody’s: it is taken up again, or it ends at once', () => {
    expect(RUN_TRANSITIONS.requires_action).toEqual(['running', 'cancelled']);
  });
});

describe('the picture of a run in ARCHITECTURE.md', () => {
  it('has every transition, and no other', () => {
    const text = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8');
    const drawn = [...text.matchAll(/^ {2}(\w+) --> (\w+)/gm)].map(([, from, to]) => `${from} ${to}`);
    const allowed = RUN_STATUSES.flatMap((from) => RUN_TRANSITIONS[from].map((to) => `${from} ${to}`));
    expect(drawn.sort()).toEqual(allowed.sort());
  });
});
