import fc from 'fast-check';
import type { JobPayload } from '../../../src/domain/run/job.ts';
import { isSettledCall } from '../../../src/domain/transcript/tool-call.ts';
import { newId } from '../../../src/platform/new-id.ts';
import type { Act, CallMoveName, Ending, Hand } from './acts.ts';
import type { CallState, MessageState, ProtocolState } from './state.ts';

/**
 * The state of the session, and facts outside of the database: jobs in the queue and claims in hand, the newest first.
 */
export type Known = Readonly<{ state: ProtocolState; jobs: readonly JobPayload[]; hands: readonly Hand[] }>;

/** An act, with two numbers for the choice of its target and its variant. A small `pick` takes the newest target. */
export type Choice = Readonly<{ act: Act['act'] | 'go-on'; pick: number; way: number }>;

/** From this `way` on, a worker that ends a step carries on with the next one, if the plan goes on with a step. */
const CARRIES_FROM = 12;

const at = <T>(items: readonly T[], pick: number): T | undefined => items[pick % Math.max(1, items.length)];

const messageOf = ({ messages }: ProtocolState, id: string | null): MessageState | undefined =>
  messages.find((message) => message.id === id);

/** The runs of the session, and the promised one. */
const runIdsOf = ({ session, runs }: ProtocolState): string[] => {
  const ids = [session.activeRunId, session.nextRunId, ...Object.keys(runs).toReversed()];
  return ids.filter((id) => id !== null);
};

const MOVES_FROM: Readonly<Partial<Record<CallState['state'], readonly CallMoveName[]>>> = {
  pending: ['start', 'start', 'refuse'],
  running: ['complete', 'complete', 'give up', 'start'],
  unknown: ['give up'],
  completed: ['start', 'complete'],
};

/** The endings that a worker's code may come to, given its work on the step so far. */
function endingsOf(state: ProtocolState, hand: Hand): readonly Ending[] {
  const message = messageOf(state, hand.openId);
  const isCancelled = state.runs[hand.job.runId]?.isCancelRequested === true;
  if (message === undefined) return isCancelled ? ['abort'] : [];
  const open = message.calls.filter((call) => !isSettledCall(call.state));
  const pending = open.filter((call) => call.state === 'pending' && call.answeredWithOpen === null);
  if (message.finishReason === null) {
    if (message.id !== hand.messageId) return isCancelled ? ['abort'] : [];
    const endings: Ending[] = ['answer', 'answer', 'tools', 'tools', 'compact', 'retry', 'overflow', 'error', 'limit'];
    return isCancelled ? [...endings, 'abort'] : endings;
  }
  if (open.length === 0 || (open.length === 1 && open[0]?.state === 'running'))
    return ['tools', 'tools', 'compact', 'limit', 'answer'];
  return pending.length === open.length ? ['ask'] : [];
}

const handAct =
  (make: (hand: Hand, known: Known, choice: Choice) => Act | null) =>
  (known: Known, choice: Choice): Act | null => {
    const hand = at(known.hands, choice.pick);
    return hand === undefined ? null : make(hand, known, choice);
  };

const isStep = ({ job }: Hand): boolean => job.kind === 'step';

const MAKE: { readonly [K in Act['act']]: (known: Known, choice: Choice) => Act | null } = {
  send: (_, { way }) => ({
    act: 'send',
    delivery: at(['steer', 'steer', 'followup', 'interrupt'] as const, way) ?? 'steer',
    messageId: newId(),
    runId: newId(),
  }),
  cancel({ state }, { pick }) {
    const runId = at(runIdsOf(state), pick);
    return runId === undefined ? null : { act: 'cancel', runId };
  },
  resume: () => ({ act: 'resume', runId: newId() }),
  'retry-failed'({ state }, { pick }) {
    const runId = at(Object.keys(state.runs).toReversed(), pick);
    return runId === undefined ? null : { act: 'retry-failed', runId };
  },
  request: (_, { way }) => ({ act: 'request', kind: way % 2 === 0 ? 'compaction' : 'prune', runId: newId() }),
  approve({ state }, { pick }) {
    const asked = state.messages
      .toReversed()
      .flatMap(({ id, runId, calls }) =>
        calls.flatMap((call, no) => (call.isAsked ? [{ messageId: id, runId, index: no + 1 }] : [])),
      );
    const call = at(asked, pick);
    return call === undefined ? null : { act: 'approve', ...call };
  },
  claim({ state, jobs, hands }, { pick, way }) {
    // A lost answer: the same worker asks again.
    const hand = hands[0];
    if (way === 0 && hand !== undefined)
      return { act: 'claim', job: hand.job, claimId: hand.claimId, messageId: hand.messageId };
    const { activeRunId } = state.session;
    const run = activeRunId === null ? undefined : state.runs[activeRunId];
    const pending =
      run === undefined || activeRunId === null || run.pendingKind === null
        ? []
        : [{ runId: activeRunId, kind: run.pendingKind, no: run.no, dispatch: run.dispatch }];
    const job = at([...pending, ...jobs], pick);
    return job === undefined ? null : { act: 'claim', job, claimId: newId(), messageId: newId() };
  },
  beat: handAct((hand) => ({ act: 'beat', hand })),
  restart: handAct((hand, { state }) => {
    const isOwn = hand.openId === hand.messageId;
    const isBroken = messageOf(state, hand.openId)?.finishReason === null;
    return isStep(hand) && (isOwn || isBroken || hand.openId === null) ? { act: 'restart', hand } : null;
  }),
  respond: handAct((hand, _, { way }) =>
    isStep(hand) && hand.openId === hand.messageId ? { act: 'respond', hand, calls: 1 + (way % 2) } : null,
  ),
  move: handAct((hand, { state }, { way }) => {
    const calls = messageOf(state, hand.openId)?.calls ?? [];
    const move = at(MOVES_FROM[calls[way % Math.max(1, calls.length)]?.state ?? 'error'] ?? [], way);
    return move === undefined ? null : { act: 'move', hand, index: (way % calls.length) + 1, move };
  }),
  note: handAct((hand, { state }, { way }) => {
    const { length } = messageOf(state, hand.openId)?.calls ?? [];
    return length === 0 ? null : { act: 'note', hand, index: (way % length) + 1 };
  }),
  finish: handAct((hand, { state }, { way }) => {
    const ending = isStep(hand) ? at(endingsOf(state, hand), way) : undefined;
    if (ending === undefined) return null;
    const message = messageOf(state, hand.openId);
    const calls = message?.calls ?? [];
    const running = calls.findIndex((call) => call.state === 'running');
    const asked = calls.flatMap((call, no) => (ending === 'ask' && call.state === 'pending' ? [no + 1] : []));
    const isWritten = message !== undefined && message.finishReason !== null;
    return {
      act: 'finish',
      hand,
      ending,
      last: running < 0 ? null : running + 1,
      asked,
      nextRunId: newId(),
      isWritten,
      carry: way >= CARRIES_FROM ? { claimId: newId(), messageId: newId() } : null,
    };
  }),
  'finish-maintenance': handAct((hand, { state }) => {
    const runKind = state.runs[hand.job.runId]?.kind;
    return isStep(hand) || runKind === undefined
      ? null
      : { act: 'finish-maintenance', hand, runKind, nextRunId: newId() };
  }),
  'hand-back': handAct((hand) => ({ act: 'hand-back', hand })),
  fail: handAct((hand) => ({ act: 'fail', hand })),
  recover({ state }, { pick }) {
    const runId = at(runIdsOf(state), pick);
    return runId === undefined ? null : { act: 'recover', runId };
  },
  redispatch({ jobs }, { pick }) {
    const job = at(jobs, pick);
    return job === undefined ? null : { act: 'redispatch', job };
  },
};

/** Acts that may come next for a run that is at work: `go-on` picks from them, so that plays come far. */
function actsThatGoOn({ state, hands }: Known): readonly Act['act'][] {
  const { activeRunId } = state.session;
  const run = activeRunId === null ? undefined : state.runs[activeRunId];
  if (run === undefined) return ['send'];
  if (run.status === 'requires_action') return ['approve'];
  if (run.claimId === null) return ['claim'];
  const [hand] = hands;
  if (hand === undefined || hand.claimId !== run.claimId || hand.epoch !== run.epoch) return ['recover'];
  if (!isStep(hand)) return ['finish-maintenance'];
  const message = messageOf(state, hand.openId);
  if (message === undefined) return ['finish'];
  if (message.finishReason !== null)
    return message.calls.every(({ state: of }) => isSettledCall(of)) ? ['finish'] : ['move', 'move', 'finish'];
  if (message.id !== hand.messageId) return run.isCancelRequested ? ['finish', 'restart'] : ['restart'];
  return ['respond', 'finish'];
}

/** Null: the act has no target. */
export function toAct(known: Known, choice: Choice): Act | null {
  if (choice.act !== 'go-on') return MAKE[choice.act](known, choice);
  const act = at(actsThatGoOn(known), choice.pick + choice.way);
  // A repeated claim is a choice of its own.
  return act === undefined ? null : MAKE[act](known, { act, pick: 0, way: Math.max(1, choice.way) });
}

const WEIGHTS: Readonly<Record<Choice['act'], number>> = {
  'go-on': 30,
  send: 6,
  claim: 3,
  respond: 2,
  move: 4,
  note: 2,
  finish: 4,
  'finish-maintenance': 1,
  restart: 1,
  cancel: 2,
  recover: 2,
  'hand-back': 2,
  beat: 1,
  fail: 1,
  redispatch: 1,
  resume: 1,
  'retry-failed': 1,
  request: 1,
  approve: 1,
};

export const choices: fc.Arbitrary<Choice> = fc.record({
  act: fc.oneof(
    ...Object.entries(WEIGHTS).map(([act, weight]) => ({ weight, arbitrary: fc.constant(act as Choice['act']) })),
  ),
  // Mostly the newest: after a while most claims and jobs are old.
  pick: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(5) }),
  way: fc.nat(2 * CARRIES_FROM - 1),
});
