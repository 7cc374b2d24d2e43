import { describe, expect, it } from 'vitest';
import type { Snapshot, StoredChild } from './check/snapshot.ts';
import { broken, judge, type Observed } from './check/verdict.ts';
import { accepted, answer, id, message, observed, type Part, RUN, SESSION, user } from './observed.ts';

const CHILD_SESSION = id(70);
const CHILD_RUN = id(71);
const CHILD_RUN_PUBLIC = `run_${CHILD_RUN.replaceAll('-', '')}`;
const ENDED_AT_MS = 1_000_000;

const RESULT = { status: 'completed', run: CHILD_RUN_PUBLIC, answer: '<answer 2> words </answer 2>' };

type Family = Readonly<{
  child?: Partial<StoredChild>;
  more?: Partial<Snapshot>;
  parentRun?: Partial<Snapshot['runs'][number]>;
  childRun?: Partial<Snapshot['runs'][number]>;
  /** Null: the call has no result. */
  result?: object | null;
  told?: readonly string[];
  /** Number of messages that give the child its task. */
  tasks?: number;
}>;

/** A run whose call gave a task to an agent, which did it; with the changes of a test. */
function family(changes: Family = {}): Observed {
  const { child, more, parentRun, childRun, result = RESULT, told = ['child:started', 'child:ended'] } = changes;
  const given: Part = {
    ...{ type: 'tool', toolName: 'helper-1', input: { task: 'Look into call-1.' }, state: 'completed' },
    ...(result !== null && { output: { type: 'text', value: JSON.stringify(result) } }),
  };
  const call = answer(2, 1, given);
  const asking = { ...call, parts: call.parts.map((part, index) => ({ ...part, index })) };
  const below = Array.from({ length: changes.tasks ?? 1 }, (_, no) => user(10 + no, 'Look into call-1.'));
  const done = message(20, 'assistant', 'stop', [{ type: 'text', text: RESULT.answer }]);
  const ofChild = [...below, done].map((each, no) => ({
    ...each,
    ...{ sessionId: CHILD_SESSION, runId: CHILD_RUN, seq: no + 1 },
  }));
  const run = { kind: 'task', status: 'completed', reason: null, error: null, finishedAtMs: ENDED_AT_MS };
  const session = { status: 'idle', isCompacting: false };
  const events = told.map((type, no) => ({
    ...{ sessionId: SESSION, seq: no + 1, runId: RUN, type },
    data: { id: 'call', childRunId: CHILD_RUN_PUBLIC },
  }));
  return observed(
    {
      sessions: [
        { ...session, id: SESSION, eventSeq: told.length, messageSeq: 3 },
        { ...session, id: CHILD_SESSION, eventSeq: 0, messageSeq: ofChild.length, parentSessionId: SESSION },
      ],
      runs: [
        { ...run, id: CHILD_RUN, sessionId: CHILD_SESSION, childrenSteps: 0, ...childRun },
        { ...run, id: RUN, sessionId: SESSION, childrenSteps: 1, ...parentRun },
      ],
      messages: [user(1, 'Task message-0-1.'), asking, answer(3, 3), ...ofChild],
      events,
      children: [
        {
          ...{ messageId: asking.id, index: 1, parentSessionId: SESSION, parentRunId: RUN, sessionId: CHILD_SESSION },
          ...{ runId: CHILD_RUN, state: 'delivered', steps: 1, isDue: false, ...child },
        },
      ],
      ...more,
    },
    { accepted: [accepted(1)], read: new Map() },
  );
}

const cancelledParent = { status: 'cancelled' };

describe('the judge, of children', () => {
  it('finds nothing where the child was begun once and gave its result once', () => {
    expect(broken(judge(family()))).toEqual([]);
  });

  it('has nothing against a result that came after a cancel and went nowhere', () => {
    const late = family({ child: { state: 'dropped' }, parentRun: cancelledParent, result: null });
    expect(broken(judge(late))).toEqual([]);
  });

  it.each<[string, keyof ReturnType<typeof judge>, Observed]>([
    ['a task that was given twice', 'doubledChildren', family({ tasks: 2 })],
    ['a session of no call', 'doubledChildren', family({ child: { sessionId: id(98) } })],
    ['a run of no call', 'doubledChildren', family({ child: { runId: id(99) } })],
    ['an end that was told twice', 'doubledChildren', family({ told: ['child:ended', 'child:ended'] })],
    ['a result that counts twice', 'doubledChildren', family({ parentRun: { childrenSteps: 2 } })],
    ['a result that counts nowhere', 'lostResults', family({ parentRun: { childrenSteps: 0 } })],
    ['a call that has no result', 'lostResults', family({ result: null })],
    [
      'a result that counts as delivered and was not',
      'lostResults',
      family({ result: null, parentRun: { status: 'requires_action' } }),
    ],
    ['a result that was given and counts as dropped', 'lostResults', family({ child: { state: 'dropped' } })],
    ['the result of another run', 'lostResults', family({ result: { ...RESULT, run: 'run_1' } })],
    ['another answer', 'lostResults', family({ result: { ...RESULT, answer: 'words' } })],
    ['an end as a failure that was none', 'lostResults', family({ result: { ...RESULT, status: 'cancelled' } })],
    ['an end that nobody was told of', 'lostResults', family({ told: ['child:started'] })],
    ['a child of no call', 'lostResults', family({ child: { index: 0 } })],
    [
      'a child that was refused',
      'lostResults',
      family({ result: { status: 'refused' }, child: { runId: id(99) }, more: { runs: [] } }),
    ],
    ['a child that runs', 'orphans', family({ childRun: { status: 'running' } })],
    [
      'a child that ran on after its parent was cancelled',
      'orphans',
      family({
        ...{ parentRun: cancelledParent, result: null, child: { state: 'dropped' } },
        childRun: { finishedAtMs: ENDED_AT_MS + 3_001 },
      }),
    ],
    ['a child whose result nobody delivers', 'orphans', family({ child: { state: 'ended' } })],
    ['a child that somebody has to look after', 'orphans', family({ child: { isDue: true } })],
    ['a run that waits for no child', 'orphans', family({ parentRun: { status: 'requires_action' } })],
  ])('finds %s', (_what, kind, given) => {
    expect(broken(judge(given))).toContain(kind);
  });
});
