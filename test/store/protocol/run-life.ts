import type { Branch, EndBranch, NextPlan } from '../../../src/domain/run/branch.ts';
import type { JobPayload } from '../../../src/domain/run/job.ts';
import { isTerminalRun, type PendingKind, type RunKind } from '../../../src/domain/run/run.ts';
import { NOT_RUN } from '../../../src/domain/run/settlement.ts';
import { closeCall } from '../../../src/domain/transcript/required-action.ts';
import { isSettledCall } from '../../../src/domain/transcript/tool-call.ts';
import type { Answer, Hand } from './acts.ts';
import type { MessageState, ProtocolState, RunState } from './state.ts';

export const isActive = (run: RunState): boolean => !isTerminalRun(run.status);

export const jobOf = (runId: string, { pendingKind, no, dispatch }: RunState): JobPayload | null =>
  pendingKind === null ? null : { runId, kind: pendingKind, no, dispatch };

/** The fence: the run, if the claim is still the worker's. */
export function claimedRun({ runs }: ProtocolState, { job, epoch, claimId }: Hand): RunState | null {
  const run = runs[job.runId];
  return run !== undefined && run.epoch === epoch && run.claimId === claimId ? run : null;
}

export const messageOf = (state: ProtocolState, id: string | null): MessageState | undefined =>
  state.messages.find((message) => message.id === id);

export const waitingOf = (state: ProtocolState, concerns: (runId: string | null, seq: number) => boolean) =>
  Object.entries(state.inbox)
    .filter(([, item]) => item.takenSeq === null && concerns(item.runId, item.seq))
    .toSorted(([, a], [, b]) => a.seq - b.seq);

/** The assistant's message of the run's step, unless it was superseded. */
export const stepMessage = (state: ProtocolState, runId: string, no: number): MessageState | undefined =>
  state.messages.find(
    (message) =>
      message.runId === runId && message.stepNo === no && message.role === 'assistant' && !message.isSuperseded,
  );

export const viewOf = ({ messages }: ProtocolState): string[] =>
  messages
    .filter((message) => !message.isSuperseded && (message.role === 'user' || message.finishReason !== null))
    .map(({ id }) => id);

const newRun = (kind: RunKind, pendingKind: PendingKind, startInboxSeq: number): RunState => ({
  kind,
  status: 'queued',
  epoch: 0,
  claimId: null,
  pendingKind,
  no: 1,
  dispatch: 1,
  attempt: 1,
  resumeCount: 0,
  stepCount: 0,
  isCancelRequested: false,
  cancelInboxSeq: null,
  startInboxSeq,
  endedAs: null,
});

export function startRun(
  state: ProtocolState,
  runId: string,
  kind: RunKind,
  pending: PendingKind = 'step',
): JobPayload | null {
  const { session } = state;
  const pendingKind = pending === 'step' ? (session.requestedMaintenance ?? 'step') : pending;
  if (pendingKind !== pending) session.requestedMaintenance = null;
  const run = newRun(kind, pendingKind, session.inboxSeq);
  state.runs[runId] = run;
  Object.assign(session, { status: 'busy', activeRunId: runId });
  if (kind === 'task') {
    Object.assign(session, { nextRunId: null, isResumeRequested: false });
    for (const [, item] of waitingOf(state, () => true)) item.runId = runId;
  }
  return jobOf(runId, run);
}

/**
 * Starts the run, if any, that follows the end of a run: for messages that are not parked, or for a requested clean-up.
 */
export function followRunEnd(state: ProtocolState, runId: string, freshRunId: () => string): JobPayload | null {
  const { session } = state;
  const run = state.runs[runId];
  if (run === undefined) return null;
  const parkedUpto = run.isCancelRequested
    ? (run.cancelInboxSeq ?? 0)
    : run.kind === 'maintenance'
      ? run.startInboxSeq
      : run.status === 'failed'
        ? session.inboxSeq
        : 0;
  const isTaken = (of: string | null, seq: number) => (of === null || of === runId) && seq > parkedUpto;
  if (session.isResumeRequested || waitingOf(state, isTaken).length > 0) {
    return startRun(state, session.nextRunId ?? freshRunId(), 'task');
  }
  const requested = session.requestedMaintenance;
  if (requested === null) return null;
  session.requestedMaintenance = null;
  return startRun(state, freshRunId(), 'maintenance', requested);
}

const endedSoFar = ({ runs }: ProtocolState): number =>
  Math.max(0, ...Object.values(runs).map(({ endedAs }) => endedAs ?? 0));

/** The run has ended: its worker, if it has one, is fenced. */
function end(state: ProtocolState, run: RunState, status: RunState['status']): void {
  const endedAs = endedSoFar(state) + 1;
  Object.assign(run, { status, pendingKind: null, claimId: null, resumeCount: 0, attempt: 1, endedAs });
  run.dispatch += 1;
  run.epoch += 1;
  Object.assign(state.session, { status: 'idle', activeRunId: null });
  state.session.epoch += 1;
}

function closeCalls(state: ProtocolState, runId: string): void {
  for (const message of state.messages.filter((each) => each.runId === runId)) {
    for (const call of message.calls) {
      if (isSettledCall(call.state)) continue;
      const given = call.answeredWithOpen === null ? null : ({ kind: 'approve' } as const);
      call.state = closeCall({ state: call.state, kind: null }, given, NOT_RUN).state;
    }
  }
}

export function failRun(state: ProtocolState, runId: string, run: RunState, freshRunId: () => string): void {
  closeCalls(state, runId);
  for (const message of state.messages) {
    if (message.runId === runId && message.role === 'assistant' && message.finishReason === null) {
      message.isSuperseded = true;
    }
  }
  end(state, run, 'failed');
  followRunEnd(state, runId, freshRunId);
}

/** The run is pending again, and its worker is fenced. */
export function requeue(state: ProtocolState, run: RunState, isRecovery: boolean): void {
  state.session.epoch += 1;
  if (run.status === 'running') run.status = 'queued';
  Object.assign(run, { epoch: state.session.epoch, claimId: null });
  run.dispatch += 1;
  if (isRecovery) run.resumeCount += 1;
}

export function cancelPromised(state: ProtocolState, runId: string): void {
  const ended = {
    status: 'cancelled',
    pendingKind: null,
    isCancelRequested: true,
    cancelInboxSeq: state.session.inboxSeq,
    endedAs: endedSoFar(state) + 1,
  } as const;
  state.runs[runId] = { ...newRun('task', 'step', 0), ...ended };
  Object.assign(state.session, { nextRunId: null, isResumeRequested: false });
  for (const [, item] of waitingOf(state, (of) => of === null)) item.runId = runId;
}

const hasWorkOutside = (state: ProtocolState, runId: string): boolean =>
  state.messages
    .filter((message) => message.runId === runId)
    .some(({ calls }) => calls.some((call) => call.hasBegun && !isSettledCall(call.state)));

/** @returns null: there is no such run */
export function cancelLocked(
  state: ProtocolState,
  runId: string,
): Readonly<{ status: string; job: JobPayload | null; hasEnded: boolean }> | null {
  const run = state.runs[runId];
  if (run === undefined) return null;
  if (!isActive(run) || run.isCancelRequested) return { status: run.status, job: null, hasEnded: false };
  const isHeld = run.status === 'running' && run.claimId !== null;
  if (run.status === 'requires_action' && hasWorkOutside(state, runId)) {
    // A worker stops that work, and ends the run.
    Object.assign(run, { pendingKind: 'step', isCancelRequested: true, cancelInboxSeq: state.session.inboxSeq });
    Object.assign(run, { status: 'cancelling', dispatch: run.dispatch + 1 });
    state.session.status = 'busy';
    return { status: 'cancelling', job: jobOf(runId, run), hasEnded: false };
  }
  if (!isHeld && (run.status === 'requires_action' || stepMessage(state, runId, run.no) === undefined)) {
    if (run.status === 'requires_action') closeCalls(state, runId);
    Object.assign(run, { isCancelRequested: true, cancelInboxSeq: state.session.inboxSeq });
    end(state, run, 'cancelled');
    return { status: 'cancelled', job: null, hasEnded: true };
  }
  Object.assign(run, { status: 'cancelling', isCancelRequested: true, cancelInboxSeq: state.session.inboxSeq });
  if (isHeld) return { status: 'cancelling', job: null, hasEnded: false };
  run.dispatch += 1;
  return { status: 'cancelling', job: jobOf(runId, run), hasEnded: false };
}

function takeInbox(state: ProtocolState, runId: string, no: number): void {
  const waiting = waitingOf(state, (of) => of === runId);
  const [first] = waiting;
  if (first === undefined) return;
  const seq = ++state.session.messageSeq;
  const accepted = waiting.map(([id]) => id);
  state.messages.push({
    id: first[0],
    seq,
    role: 'user',
    runId,
    stepNo: no,
    finishReason: null,
    isSuperseded: false,
    calls: [],
    accepted,
  });
  for (const [, item] of waiting) item.takenSeq = seq;
}

export function beginStep(state: ProtocolState, runId: string, run: RunState, messageId: string): number {
  takeInbox(state, runId, run.no);
  const seq = ++state.session.messageSeq;
  const open = { finishReason: null, isSuperseded: false, calls: [], accepted: [] };
  state.messages.push({ id: messageId, seq, role: 'assistant', runId, stepNo: run.no, ...open });
  state.session.epoch = run.epoch;
  return seq;
}

/** The worker that ended a step goes on with the next one: the run has an owner at every moment in between. */
export function carryOn(
  state: ProtocolState,
  runId: string,
  run: RunState,
  { claimId, messageId }: Readonly<{ claimId: string; messageId: string }>,
): Answer {
  run.claimId = claimId;
  const messageSeq = beginStep(state, runId, run, messageId);
  return { epoch: run.epoch, messageSeq, view: viewOf(state) };
}

/** Ends a job with the branch of the plan that applies. */
export function takeBranch(
  state: ProtocolState,
  runId: string,
  run: RunState,
  plan: NextPlan,
  steps: number,
  nextRunId: string,
): Readonly<{ branch: keyof NextPlan; jobs: JobPayload[] }> {
  const isWaitedFor = waitingOf(state, (of) => of === runId).length > 0;
  const branchName = run.isCancelRequested ? 'ifCancelled' : isWaitedFor ? 'ifMessagesWait' : 'otherwise';
  const branch = plan[branchName];
  for (const { messageId, index, state: to } of callsOf(branch)) {
    const call = messageOf(state, messageId)?.calls[index - 1];
    const isAsked = branch.kind === 'wait';
    if (call !== undefined) Object.assign(call, { state: to, isAsked, answeredWithOpen: null });
  }
  run.stepCount += steps;
  const job =
    branch.kind === 'end' ? endWith(state, runId, run, branch, nextRunId) : goOnWith(state, runId, run, branch);
  return { branch: branchName, jobs: job === null ? [] : [job] };
}

/** The calls whose state the branch changes. */
function callsOf(branch: Branch) {
  return branch.kind === 'wait' || branch.kind === 'end' || branch.kind === 'final_answer' ? (branch.calls ?? []) : [];
}

function endWith(
  state: ProtocolState,
  runId: string,
  run: RunState,
  branch: EndBranch,
  nextRunId: string,
): JobPayload | null {
  end(state, run, branch.status);
  return followRunEnd(state, runId, () => nextRunId);
}

/** The run goes on with a job, or waits for answers without one. Its worker lets it go. */
function goOnWith(
  state: ProtocolState,
  runId: string,
  run: RunState,
  branch: Exclude<Branch, EndBranch>,
): JobPayload | null {
  const { session } = state;
  const isRetry = branch.kind === 'retry';
  if (!isRetry) run.resumeCount = 0;
  run.claimId = null;
  run.dispatch += 1;
  run.epoch += 1;
  session.epoch += 1;
  if (branch.kind === 'wait') {
    Object.assign(run, { status: 'requires_action', pendingKind: null });
    session.status = 'requires_action';
    return null;
  }
  const requested = branch.pendingKind === 'step' && !isRetry ? session.requestedMaintenance : null;
  if (requested !== null) session.requestedMaintenance = null;
  run.attempt = isRetry ? run.attempt + 1 : branch.pendingNo === run.no ? run.attempt : 1;
  run.pendingKind = requested ?? branch.pendingKind;
  run.no = branch.pendingNo;
  return jobOf(runId, run);
}
