import type { Breakage } from './breakage.ts';

const BEGIN = 'src/delegation/begin-child.ts';
const TELL = 'src/delegation/tell-parent.ts';
const CHILDREN = 'src/store/session/children.ts';

/** Broken promises about agents that give tasks to other agents. */
export const BROKEN_CHILDREN: readonly Breakage[] = [
  {
    name: 'split-begin',
    about:
      'the session of a child is committed before its call is noted as begun, under ids that are not made of the call',
    changes: [
      {
        file: BEGIN,
        find: '  child: Child,\n  signal: AbortSignal,\n  lanes: ChildLanes,\n): Promise<void> {\n',
        replace: `  given: Child,
  signal: AbortSignal,
  lanes: ChildLanes,
): Promise<void> {
  const child = { ...given, sessionId: crypto.randomUUID(), runId: crypto.randomUUID() };
`,
      },
      {
        file: BEGIN,
        find: "const messageId = derivedId('child', child.messageId, String(child.index), 'message');",
        replace: 'const messageId = crypto.randomUUID();',
      },
      {
        file: BEGIN,
        find: 'if (await noteBegin(tx, child, outcome.runId)) return outcome;',
        replace: 'if (outcome.runId !== null) return outcome;',
      },
      {
        file: BEGIN,
        find: '  if (accepted !== null) await afterAccepted(deps, sessionId, accepted);',
        replace: `  if (accepted === null) return;
  await inTransaction(deps.db, (tx) => noteBegin(tx, child, accepted.runId));
  await afterAccepted(deps, sessionId, accepted);`,
      },
      {
        file: CHILDREN,
        find: `set state = 'running', run_id = \${runId},`,
        replace: `set state = 'running', run_id = \${runId}, session_id = (select session_id from runs where id = \${runId}),`,
      },
    ],
    faults: ['kill-at-spawn'],
    foundBy: ['doubledChildren'],
  },
  {
    name: 'early-delivery',
    about: 'a result is noted as delivered before the call has it',
    changes: [
      {
        file: TELL,
        find: '  await underParent(deps, listedChild, async (tx, child, session) => {\n    const { result } = child;',
        replace: `  await underParent(deps, listedChild, async (tx, child) => {
    if (child.state === 'ended') await noteDelivered(tx, child, 'delivered');
    return null;
  });
  await underParent(deps, listedChild, async (tx, child, session) => {
    const { result } = child;`,
      },
      {
        file: TELL,
        find: "if (child.state !== 'ended' || result === null) return null;",
        replace: "if (child.state !== 'delivered' || result === null) return null;",
      },
      {
        file: TELL,
        find: "    await noteDelivered(tx, child, answered === null ? 'dropped' : 'delivered');\n",
        replace: '',
      },
    ],
    faults: ['kill-at-child-end'],
    foundBy: ['lostResults'],
  },
  {
    name: 'forgotten-child',
    about: 'what a process that died was about to do for a child is done by no other one',
    changes: [
      {
        file: CHILDREN,
        find: `set due_at = clock_timestamp() + make_interval(secs => \${LOOKED_AFTER_MS / 1000})`,
        replace: 'set due_at = null',
      },
    ],
    faults: ['kill-at-spawn'],
    foundBy: ['orphans'],
  },
  {
    name: 'unstopped-child',
    about: 'a child goes on after the run that waited for it was cancelled',
    changes: [
      {
        file: 'src/domain/run/child.ts',
        find: "  if (state === 'running' && stopRequested) return 'stop';\n",
        replace: '',
      },
    ],
    faults: ['cancel-against-delivery'],
    foundBy: ['orphans'],
  },
];
