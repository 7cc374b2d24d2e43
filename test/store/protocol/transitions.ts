import { placeMessage } from '../../../src/domain/run/delivery.ts';
import { isSettledCall } from '../../../src/domain/transcript/tool-call.ts';
import { MAX_RESUMES_PER_STEP } from '../../../src/domain/tunables.ts';
import { type Act, type Answer, CALL_MOVES } from './acts.ts';
import { keptOf, planOf, planOfMaintenance, responseOf, stepsOf } from './plans.ts';
import {
  beginStep,
  cancelLocked,
  cancelPromised,
  carryOn,
  claimedRun,
  failRun,
  followRunEnd,
  isActive,
  jobOf,
  messageOf,
  requeue,
  startRun,
  stepMessage,
  takeBranch,
  viewOf,
  waitingOf,
} from './run-life.ts';
import type { CallState, ProtocolState, RunState } from './state.ts';

/** A transition changes the state in place by an act, and returns the act's answer. */
type Transition<A> = (state: ProtocolState, act: A, freshRunId: () => string) => Answer;
type Transitions = { readonly [K in Act['act']]: Transition<Extract<Act, { act: K }>> };

const FENCED: Answer = { fenced: true };

const refused = (error: string): Answer => ({ error });

const TRANSITIONS: Transitions = {
  send(state, { delivery, messageId, runId }) {
    const { session, inbox } = state;
    const activeId = session.activeRunId;
    const active = activeId === null ? undefined : state.runs[activeId];
    const place = placeMessage(delivery, active === undefined ? null : { ...active, givesFinalAnswer: false });
    const cancelled = place === 'interrupt' && activeId !== null ? cancelLocked(state, activeId) : null;
    session.inboxSeq += 1;
    inbox[messageId] = { seq: session.inboxSeq, runId: place === 'join' ? activeId : null, takenSeq: null };
    if (place === 'start' || cancelled?.status === 'cancelled') {
      const id = session.nextRunId ?? runId;
      return {
        runId: id,
        queued: false,
        job: startRun(state, id, 'task'),
        cancelled: cancelled?.status ?? null,
        toSettle: null,
      };
    }
    if (place !== 'join') session.nextRunId ??= runId;
    const joined = place === 'join' ? activeId : session.nextRunId;
    return {
      runId: joined,
      queued: true,
      job: null,
      cancelled: cancelled?.status ?? null,
      toSettle: cancelled?.job ?? null,
    };
  },
  cancel(state, { runId }, freshRunId) {
    if (state.session.nextRunId === runId) {
      cancelPromised(state, runId);
      return { status: 'cancelled', job: null };
    }
    const cancelled = cancelLocked(state, runId);
    if (cancelled === null) return refused('not_found');
    const job = cancelled.hasEnded ? followRunEnd(state, runId, freshRunId) : null;
    return { status: cancelled.status, job: job ?? cancelled.job };
  },
  resume(state, { runId }) {
    const { session, runs } = state;
    const active = session.activeRunId === null ? undefined : runs[session.activeRunId];
    if (active?.kind === 'task') return refused('session_busy');
    const last = lastTask(state);
    if (waitingOf(state, () => true).length === 0 && (last === undefined || last[1].status === 'completed')) {
      return refused('conflict');
    }
    session.nextRunId ??= runId;
    const id = session.nextRunId;
    if (active === undefined) return { runId: id, job: startRun(state, id, 'task') };
    session.isResumeRequested = true;
    return { runId: id, job: null };
  },
  'retry-failed'(state, { runId }) {
    const { session } = state;
    const last = lastTask(state);
    if (last?.[0] !== runId || last[1].status !== 'failed') return { job: 'moved_on' };
    if (session.activeRunId !== null) return { job: 'busy' };
    const run = last[1];
    const again = { status: 'queued', pendingKind: 'step', attempt: 1, resumeCount: 0, endedAs: null } as const;
    Object.assign(run, again, { isCancelRequested: false, cancelInboxSeq: null });
    run.no += 1;
    run.dispatch += 1;
    Object.assign(session, { status: 'busy', activeRunId: runId });
    return { job: jobOf(runId, run) };
  },
  request(state, { kind, runId }) {
    const { session } = state;
    if (session.activeRunId !== null) {
      session.requestedMaintenance = kind;
      return { runId: session.activeRunId, job: null };
    }
    session.requestedMaintenance = null;
    return { runId, job: startRun(state, runId, 'maintenance', kind) };
  },
  approve(state, { runId, messageId, index }) {
    const run = state.runs[runId];
    const calls = state.messages.filter((each) => each.runId === runId).flatMap((each) => each.calls);
    const call = messageOf(state, messageId)?.calls[index - 1];
    if (call?.isAsked !== true) return refused('conflict');
    if (call.answeredWithOpen !== null) return { open: call.answeredWithOpen, job: null };
    const isOpen = (each: CallState) => each.isAsked && each.answeredWithOpen === null && !isSettledCall(each.state);
    if (run?.status !== 'requires_action' || !isOpen(call)) return refused('conflict');
    Object.assign(call, { state: 'pending', answeredWithOpen: calls.filter(isOpen).length - 1 });
    const open = call.answeredWithOpen;
    if (open !== 0) return { open, job: null };
    Object.assign(run, { status: 'running', pendingKind: 'step' });
    run.dispatch += 1;
    state.session.status = 'busy';
    return { open, job: jobOf(runId, run) };
  },
  claim(state, { job, claimId, messageId }) {
    const { session, runs } = state;
    const run = runs[job.runId];
    if (run === undefined || !isActive(run) || run.status === 'requires_action') return { outcome: 'gone' };
    if (run.pendingKind !== job.kind || run.no !== job.no || run.dispatch !== job.dispatch) return { outcome: 'stale' };
    if (run.claimId !== claimId) {
      if (run.claimId !== null) return { outcome: 'held' };
      if (run.status === 'queued') run.status = 'running';
      Object.assign(run, { epoch: session.epoch + 1, claimId });
    }
    session.epoch = run.epoch;
    const interrupted = job.kind === 'step' ? stepMessage(state, job.runId, job.no) : undefined;
    const claimed = { outcome: 'claimed', epoch: run.epoch, cancelRequested: run.isCancelRequested };
    const begun = { interrupted: null, messageSeq: null };
    if (run.isCancelRequested) return { ...claimed, ...begun, interrupted: interrupted?.id ?? null, view: null };
    if (job.kind !== 'step') return { ...claimed, ...begun, view: viewOf(state) };
    if (interrupted === undefined) {
      const messageSeq = beginStep(state, job.runId, run, messageId);
      return { ...claimed, ...begun, messageSeq, view: viewOf(state) };
    }
    if (interrupted.id !== messageId) return { ...claimed, ...begun, interrupted: interrupted.id, view: null };
    return { ...claimed, ...begun, messageSeq: interrupted.seq, view: viewOf(state) };
  },
  beat(state, { hand }) {
    const run = state.runs[hand.job.runId];
    if (run?.claimId !== hand.claimId) return { held: false };
    return { held: true, cancelRequested: run.isCancelRequested };
  },
  restart(state, { hand }) {
    const run = claimedRun(state, hand);
    if (run === null) return FENCED;
    const own = messageOf(state, hand.messageId);
    if (run.isCancelRequested) return { messageSeq: own?.seq ?? null, view: null };
    if (own !== undefined) return { messageSeq: own.seq, view: viewOf(state) };
    const broken = messageOf(state, hand.openId);
    if (broken !== undefined) Object.assign(broken, { isSuperseded: true, calls: [] });
    const messageSeq = beginStep(state, hand.job.runId, run, hand.messageId);
    return { messageSeq, view: viewOf(state) };
  },
  respond(state, { hand, calls }) {
    const run = claimedRun(state, hand);
    const message = messageOf(state, hand.openId);
    if (run === null || message === undefined) return FENCED;
    if (message.finishReason !== null) return { mayStart: message.calls.some((call) => call.state === 'running') };
    message.finishReason = 'tool-calls';
    message.calls = Array.from({ length: calls }, (_, no) => ({
      state: no === 0 && !run.isCancelRequested ? 'running' : 'pending',
      isAsked: false,
      hasBegun: false,
      answeredWithOpen: null,
    }));
    return { mayStart: !run.isCancelRequested };
  },
  move(state, { hand, index, move }) {
    const run = claimedRun(state, hand);
    if (run === null) return FENCED;
    const call = messageOf(state, hand.openId)?.calls[index - 1];
    const { from, to } = CALL_MOVES[move];
    if (call === undefined || !from.some((each) => each === call.state)) return { moved: 'refused' };
    if (to === 'running' && run.isCancelRequested) return { moved: 'cancelled' };
    call.state = to;
    return { moved: 'moved' };
  },
  note(state, { hand, index }) {
    const call = claimedRun(state, hand) === null ? undefined : messageOf(state, hand.openId)?.calls[index - 1];
    if (call !== undefined) call.hasBegun = true;
    return { noted: call !== undefined };
  },
  finish(state, finish) {
    const { hand, last, nextRunId, carry } = finish;
    const run = claimedRun(state, hand);
    if (run === null) return FENCED;
    const kept = run.isCancelRequested ? keptOf(finish) : undefined;
    const response = kept ?? responseOf(finish);
    const message = messageOf(state, hand.openId);
    if (message !== undefined && response !== undefined) {
      const { finishReason = null, superseded: isSuperseded = false } = response;
      Object.assign(message, { finishReason, isSuperseded, calls: [] });
    }
    const call = last === null ? undefined : message?.calls[last - 1];
    if (call !== undefined) call.state = 'completed';
    const plan = planOf(finish);
    const taken = takeBranch(state, hand.job.runId, run, plan, stepsOf(finish), nextRunId);
    const isGoingOn = plan[taken.branch].kind === 'continue' && run.pendingKind === 'step';
    return { ...taken, claimed: carry !== null && isGoingOn ? carryOn(state, hand.job.runId, run, carry) : null };
  },
  'finish-maintenance'(state, finish) {
    const run = claimedRun(state, finish.hand);
    if (run === null) return FENCED;
    return takeBranch(state, finish.hand.job.runId, run, planOfMaintenance(finish), 0, finish.nextRunId);
  },
  'hand-back'(state, { hand }) {
    const run = claimedRun(state, hand);
    if (run === null) return FENCED;
    requeue(state, run, false);
    return { job: jobOf(hand.job.runId, run) };
  },
  fail(state, { hand }, freshRunId) {
    const run = claimedRun(state, hand);
    if (run === null) return FENCED;
    failRun(state, hand.job.runId, run, freshRunId);
    return { failed: true };
  },
  recover(state, { runId }, freshRunId) {
    const run = state.runs[runId];
    if (run === undefined || run.claimId === null) return { recovered: false };
    if (run.resumeCount >= MAX_RESUMES_PER_STEP) failRun(state, runId, run, freshRunId);
    else requeue(state, run, true);
    return { recovered: true };
  },
  redispatch(state, { job }) {
    const run = state.runs[job.runId];
    if (run === undefined || run.claimId !== null) return { job: null };
    if (run.pendingKind !== job.kind || run.no !== job.no || run.dispatch !== job.dispatch) return { job: null };
    run.dispatch += 1;
    return { job: jobOf(job.runId, run) };
  },
};

/** The active task run, else the one that ended last. */
function lastTask({ runs }: ProtocolState): readonly [string, RunState] | undefined {
  const rank = ({ endedAs }: RunState) => endedAs ?? Number.POSITIVE_INFINITY;
  return Object.entries(runs)
    .filter(([, run]) => run.kind === 'task')
    .toSorted(([, a], [, b]) => rank(b) - rank(a))[0];
}

/**
 * Renumbers the ends of runs without gaps, as `readState` reads them: a run that is tried again has no end any more.
 */
function rankEnds({ runs }: ProtocolState): void {
  const ended = Object.values(runs).filter(({ endedAs }) => endedAs !== null);
  for (const [at, run] of ended.toSorted((a, b) => (a.endedAs ?? 0) - (b.endedAs ?? 0)).entries()) run.endedAs = at + 1;
}

/**
 * The state after an act and the answer to it, as the protocol has them.
 * @param freshRunIds ids that the store made up itself, in the order of their use
 */
export function step(
  before: ProtocolState,
  act: Act,
  freshRunIds: readonly string[],
): readonly [ProtocolState, Answer] {
  const state = structuredClone(before);
  const left = [...freshRunIds];
  const transition = TRANSITIONS[act.act] as Transition<Act>;
  const answer = transition(state, act, () => left.shift() ?? 'a run that the store did not start');
  rankEnds(state);
  return [state, answer];
}
