import { textOf } from './messages.ts';
import { ENDED, type Snapshot, type StoredChild, type StoredMessage, type StoredPart } from './snapshot.ts';

export type ChildFindings = Readonly<{
  /** A task given twice, a session or run below a parent that belongs to no call, a result told or counted twice. */
  doubled: readonly string[];
  /** A call without the result of its child or with a wrong one; a child's end that the parent's log does not tell. */
  lost: readonly string[];
  /** A child that went on after its parent's run, or is not over in the end; a run that waits without an open child. */
  orphans: readonly string[];
}>;

/** A call that gives a task to another agent. */
export const isDelegation = ({ type, input }: StoredPart): boolean => type === 'tool' && input?.task !== undefined;

/**
 * Judges every task that one agent gave to another.
 * @param stopsWithinMs time for which a child may go on after its parent's run has ended
 */
export function checkChildren(snapshot: Snapshot, stopsWithinMs: number): ChildFindings {
  return {
    doubled: [...begunTwice(snapshot), ...ofNoCall(snapshot), ...toldTwice(snapshot), ...countedOver(snapshot, 1)],
    lost: [...snapshot.children.flatMap((child) => lostOf(snapshot, child)), ...countedOver(snapshot, -1)],
    orphans: [
      ...snapshot.children.flatMap((child) => orphaned(snapshot, child, stopsWithinMs)),
      ...waitInVain(snapshot),
    ],
  };
}

const TASK = /call-\d+/;

/** The first message of a child names the call that the child comes from. */
function begunTwice({ sessions, messages }: Snapshot): string[] {
  const below = new Set(sessions.flatMap(({ id, parentSessionId = null }) => (parentSessionId === null ? [] : [id])));
  const tasks = messages.flatMap((message) => {
    const isTask = below.has(message.sessionId) && message.role === 'user' && !message.isSummary;
    const [token] = (isTask && TASK.exec(textOf(message))) || [];
    return token === undefined ? [] : [{ token }];
  });
  return [...Map.groupBy(tasks, ({ token }) => token)].flatMap(([token, all]) =>
    all.length > 1 ? [`${token} was begun ${all.length} times`] : [],
  );
}

function ofNoCall({ sessions, runs, children }: Snapshot): string[] {
  const known = new Set(children.flatMap(({ sessionId, runId }) => [sessionId, runId]));
  const below = sessions.filter(({ parentSessionId = null }) => parentSessionId !== null).map(({ id }) => id);
  const runsBelow = runs.filter(({ sessionId, kind }) => kind === 'task' && below.includes(sessionId));
  return [
    ...below.filter((id) => !known.has(id)).map((id) => `session ${id} is of no call`),
    ...runsBelow.filter(({ id }) => !known.has(id)).map(({ id }) => `run ${id} is of no call`),
  ];
}

function toldTwice({ events }: Snapshot): string[] {
  const told = events.filter(({ type }) => type === 'child:started' || type === 'child:ended');
  return [...Map.groupBy(told, ({ type, data }) => `${type} of ${data['id']}`)].flatMap(([what, all]) =>
    all.length > 1 ? [`${what}: ${all.length} times`] : [],
  );
}

/** Results that count more than once (`sign` 1), or not at all (-1), in the steps that their parent's run counts. */
function countedOver({ runs, children }: Snapshot, sign: 1 | -1): string[] {
  const done = children.filter(({ state }) => DONE.includes(state));
  const byRun = Map.groupBy(done, ({ parentRunId }) => parentRunId);
  return runs.flatMap(({ id, childrenSteps = 0 }) => {
    const used = (byRun.get(id) ?? []).reduce((sum, { steps }) => sum + steps, 0);
    return (childrenSteps - used) * sign > 0 ? [`run ${id} counts ${childrenSteps} of ${used} steps of children`] : [];
  });
}

const DONE: readonly string[] = ['delivered', 'dropped'];

function lostOf(snapshot: Snapshot, child: StoredChild): string[] {
  const { messages, runs, events } = snapshot;
  const name = `the task of ${child.messageId}, ${child.index}`;
  const call = messages
    .find(({ id }) => id === child.messageId)
    ?.parts.find(({ index, content }) => index === child.index && isDelegation(content));
  if (call === undefined) return [`${name} is of no call`];
  const run = runs.find(({ id }) => id === child.runId);
  const parent = runs.find(({ id }) => id === child.parentRunId);
  const told = readResult(call.content);
  const isGiven = told !== null && told['status'] !== undefined;
  const problems: string[] = [];
  if (parent?.status === 'completed' && !isGiven) problems.push(`${name} has no result, and its run is completed`);
  if (DONE.includes(child.state) && isGiven !== (child.state === 'delivered')) {
    problems.push(`${name} is ${child.state}, and its call says ${JSON.stringify(told)}`);
  }
  if (isGiven && run === undefined) problems.push(`${name} was not begun: ${JSON.stringify(told)}`);
  if (run === undefined || !ENDED.includes(run.status)) return problems;
  if (isGiven && !isTrue(told, run, messages)) problems.push(`${name} says ${JSON.stringify(told)} of run ${run.id}`);
  const ends = events.filter(
    ({ type, data }) => type === 'child:ended' && String(data['childRunId']) === publicRunId(run.id),
  );
  if (ends.length === 0) problems.push(`the end of run ${run.id} is not told to its parent's readers`);
  return problems;
}

/** The result as the model reads it. Null: the call has none. */
function readResult({ output }: StoredPart): Readonly<Record<string, unknown>> | null {
  try {
    return JSON.parse(String(output?.value)) as Readonly<Record<string, unknown>>;
  } catch {
    return null;
  }
}

const publicRunId = (id: string): string => `run_${id.replaceAll('-', '')}`;

/** Whether the result belongs to this run, and tells its true status and answer. */
function isTrue(
  told: Readonly<Record<string, unknown>>,
  run: Snapshot['runs'][number],
  messages: readonly StoredMessage[],
): boolean {
  if (told['run'] !== publicRunId(run.id) || told['status'] !== run.status) return false;
  if (run.status !== 'completed') return true;
  const last = messages.findLast(
    ({ runId, role, superseded }) => runId === run.id && role === 'assistant' && !superseded,
  );
  const text = last?.parts.map(({ content }) => (content.type === 'text' ? (content.text ?? '') : '')).join('');
  return told['answer'] === text;
}

function orphaned({ runs }: Snapshot, child: StoredChild, stopsWithinMs: number): string[] {
  const parent = runs.find(({ id }) => id === child.parentRunId);
  const run = runs.find(({ id }) => id === child.runId);
  const name = `run ${child.runId} under the ${parent?.status} run ${child.parentRunId}`;
  if (run !== undefined && !ENDED.includes(run.status)) return [`${name} is ${run.status}`];
  if (!DONE.includes(child.state) || child.isDue) {
    return [`${name}: its call is ${child.state}${child.isDue ? ', and somebody has to look after it' : ''}`];
  }
  const wentOnMs = (run?.finishedAtMs ?? 0) - (parent?.finishedAtMs ?? Number.POSITIVE_INFINITY);
  return wentOnMs > stopsWithinMs ? [`${name} went on for ${Math.round(wentOnMs)} ms`] : [];
}

/** Runs that wait although all of their children have ended: no child is left to wake them. */
function waitInVain({ runs, children }: Snapshot): string[] {
  const byRun = Map.groupBy(children, ({ parentRunId }) => parentRunId);
  return runs.flatMap(({ id, status }) => {
    const own = byRun.get(id) ?? [];
    const isVain = status === 'requires_action' && own.length > 0 && own.every(({ state }) => DONE.includes(state));
    return isVain ? [`run ${id} waits, and all of its children have ended`] : [];
  });
}
