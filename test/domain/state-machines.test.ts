import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  COMPACTION_STATES,
  COMPACTION_TRANSITIONS,
  canMoveCompaction,
  isTerminalCompaction,
} from '../../src/domain/compaction.ts';
import {
  ACTIVE_RUN_STATUSES,
  canMoveRun,
  isTerminalRun,
  PENDING_KINDS,
  RUN_KINDS,
  RUN_STATUSES,
  RUN_TRANSITIONS,
} from '../../src/domain/run/run.ts';
import { DELIVERIES, SESSION_STATUSES } from '../../src/domain/run/session.ts';
import { sqlCheck } from '../../src/domain/state-machine.ts';
import { MESSAGE_ROLES, partSchema } from '../../src/domain/transcript/message.ts';
import {
  canMoveCall,
  isSettledCall,
  TOOL_CALL_STATES,
  TOOL_CALL_TRANSITIONS,
} from '../../src/domain/transcript/tool-call.ts';

type Machine = Readonly<{
  name: string;
  states: readonly string[];
  transitions: Readonly<Record<string, readonly string[]>>;
  canMove: (from: string, to: string) => boolean;
  isTerminal: (state: string) => boolean;
  initial: string;
  terminal: readonly string[];
  /** The one way out of a terminal state, which only somebody opens who wants the work done after all. */
  reopens?: Readonly<Record<string, readonly string[]>>;
}>;

/** The typed functions of a machine, open to every name so that the whole table can be walked. */
function machine<State extends string>(
  name: string,
  states: readonly State[],
  transitions: Readonly<Record<State, readonly State[]>>,
  functions: { canMove: (from: State, to: State) => boolean; isTerminal: (state: State) => boolean },
  expected: Pick<Machine, 'reopens'> & { initial: State; terminal: readonly State[] },
): Machine {
  const known = (state: string): State => {
    const found = states.find((each) => each === state);
    if (found === undefined) throw new Error(`${name} has no state ${state}`);
    return found;
  };
  return {
    name,
    states,
    transitions,
    canMove: (from, to) => functions.canMove(known(from), known(to)),
    isTerminal: (state) => functions.isTerminal(known(state)),
    ...expected,
  };
}

const MACHINES: readonly Machine[] = [
  machine(
    'run',
    RUN_STATUSES,
    RUN_TRANSITIONS,
    { canMove: canMoveRun, isTerminal: isTerminalRun },
    {
      initial: 'queued',
      terminal: ['completed', 'failed', 'cancelled', 'incomplete'],
      reopens: { failed: ['queued'] },
    },
  ),
  machine(
    'tool call',
    TOOL_CALL_STATES,
    TOOL_CALL_TRANSITIONS,
    { canMove: canMoveCall, isTerminal: isSettledCall },
    { initial: 'pending', terminal: ['completed', 'error', 'denied'] },
  ),
  machine(
    'compaction',
    COMPACTION_STATES,
    COMPACTION_TRANSITIONS,
    { canMove: canMoveCompaction, isTerminal: isTerminalCompaction },
    { initial: 'running', terminal: ['completed', 'rejected', 'failed'] },
  ),
];

describe.each(MACHINES)(
  'the state machine of a $name',
  ({ states, transitions, canMove, isTerminal, initial, terminal, reopens }) => {
    it('ends in its terminal states and nowhere else, and nothing leads out of them but a retry that is asked for', () => {
      expect(states.filter(isTerminal)).toEqual(terminal);
      for (const from of terminal) expect(states.filter((to) => canMove(from, to))).toEqual(reopens?.[from] ?? []);
    });

    it('allows exactly what its table says, and never staying', () => {
      expect(Object.keys(transitions)).toEqual(states);
      for (const from of states) {
        expect(states.filter((to) => canMove(from, to)).toSorted()).toEqual([...(transitions[from] ?? [])].toSorted());
        expect(canMove(from, from)).toBe(false);
      }
    });

    it('reaches every state from its first one, and a terminal one from every state', () => {
      expect(reachable(transitions, initial)).toEqual(new Set(states));
      for (const state of states) {
        expect([...reachable(transitions, state)].some((each) => terminal.includes(each))).toBe(true);
      }
    });
  },
);

function reachable(transitions: Readonly<Record<string, readonly string[]>>, start: string): Set<string> {
  const seen = new Set([start]);
  for (const state of seen) for (const next of transitions[state] ?? []) seen.add(next);
  return seen;
}

describe('the rules that a crash or a cancel leans on', () => {
  it('a run that is handed back or recovered is queued again, but a cancelling one never is', () => {
    expect(canMoveRun('running', 'queued')).toBe(true);
    expect(canMoveRun('cancelling', 'queued')).toBe(false);
    expect(canMoveRun('cancelling', 'running')).toBe(false);
  });

  it('a cancel can still end as completed when the answer was there', () => {
    expect(canMoveRun('cancelling', 'completed')).toBe(true);
  });

  it('a call starts once: it goes back only where its tool never began, and runs again only when recorded as unknown', () => {
    expect(TOOL_CALL_STATES.filter((from) => canMoveCall(from, 'running'))).toEqual(['pending', 'unknown']);
    expect(canMoveCall('running', 'pending')).toBe(true);
    expect(canMoveCall('unknown', 'pending')).toBe(false);
  });

  it('a call that waits for approval does not run before it is approved', () => {
    expect(TOOL_CALL_TRANSITIONS.awaiting_approval).toEqual(['pending', 'denied', 'error']);
    expect(TOOL_CALL_TRANSITIONS.awaiting_output).toEqual(['pending', 'denied', 'error']);
  });

  it('a run that waits is nobody’s: it is taken up again, or it ends at once', () => {
    expect(RUN_TRANSITIONS.requires_action).toEqual(['running', 'cancelled']);
  });
});

describe('the checks in the database', () => {
  const folder = new URL('../../migrations/', import.meta.url);
  const migrations = readdirSync(folder)
    .toSorted()
    .map((file) => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n');
  const tableOf = (name: string): string => {
    const [, after] = migrations.split(`create table ${name} (`);
    return after?.split('.execute(')[0] ?? '';
  };

  it.each([
    ['runs', 'status', RUN_STATUSES],
    ['runs', 'kind', RUN_KINDS],
    ['runs', 'pending_kind', PENDING_KINDS],
    ['sessions', 'status', SESSION_STATUSES],
    ['messages', 'role', MESSAGE_ROLES],
    ['parts', 'state', TOOL_CALL_STATES],
    ['inbox', 'delivery', DELIVERIES],
    ['compactions', 'state', COMPACTION_STATES],
  ])('of %s.%s are the text that the code writes for them', (table, column, states) => {
    expect(tableOf(table)).toContain(`check (${sqlCheck(column, states)})`);
  });

  it('of parts.type allow the parts that the code knows', () => {
    const [check = ''] = /(?<![a-z_])type in \([^)]*\)/.exec(tableOf('parts')) ?? [];
    const inDatabase = [...check.matchAll(/'([^']+)'/g)].map((match) => match[1]);
    expect(inDatabase.toSorted()).toEqual(partSchema.options.map((option) => option.shape.type.value).toSorted());
  });

  it('let a session have one run in any of the statuses that hold it', () => {
    expect(migrations).toContain(
      `create unique index runs_one_active_per_session on runs (session_id)\n    where ${sqlCheck('status', ACTIVE_RUN_STATUSES)}`,
    );
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
