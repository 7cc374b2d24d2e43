import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type fc from 'fast-check';
import type { JobPayload } from '../../../src/domain/run/job.ts';
import { isSettledCall } from '../../../src/domain/transcript/tool-call.ts';
import { newId } from '../../../src/platform/new-id.ts';
import type { Db } from '../../../src/store/db/database.ts';
import { insertSession } from '../../../src/store/session/sessions.ts';
import type { Act, Answer, Hand } from './acts.ts';
import type { Known } from './choices.ts';
import type { Connections } from './interleaving.ts';
import { addNeighbour } from './neighbour.ts';
import { perform } from './product.ts';
import { brokenRules, createLedger } from './rules.ts';
import { NEW_SESSION, type ProtocolState, readState } from './state.ts';
import { step } from './transitions.ts';

export type Play = Awaited<ReturnType<typeof openPlay>>;

/** One session in Postgres, compared with the model after each act. */
export async function openPlay(db: Db, connections: Connections) {
  const sessionId = newId();
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: sessionId, tenantId: 'default', ...agent, title: null, metadata: {} });
  await addNeighbour(db, sessionId);
  const ledger = createLedger();
  let known: Known = { state: NEW_SESSION, jobs: [], hands: [] };

  /** Compares the store's answers and state with the model's, for each order of the acts. */
  const compare = async (acts: readonly Act[], answers: readonly Answer[]): Promise<void> => {
    for (const [no, act] of acts.entries()) ledger.note(act, answers[no] ?? {});
    const { eventsHaveGap, ...found } = await readState(db, sessionId);
    const fresh = freshRunIds(known.state, acts, found);
    const orders = permutations(acts.map((act, no) => ({ act, answer: answers[no] ?? {} })));
    const predictions = orders.map((order) => predict(known.state, order, fresh));
    const match = predictions.find((each) => each.isAnswered && isDeepStrictEqual(each.state, found));
    if (match === undefined) {
      const [only] = predictions;
      if (acts.length > 1 || only === undefined)
        throw new Error(`no order explains ${tell(acts, answers)}, which left ${tell([found])}`);
      assert.deepEqual({ acts, answers, state: found }, { acts, answers: only.answers, state: only.state });
    }
    assert.deepEqual(brokenRules(found), [], `after ${tell(acts)}`);
    assert.equal(eventsHaveGap, false, `events after ${tell(acts)}`);
    assert.deepEqual(new Set(Object.keys(found.inbox)), ledger.accepted);
    known = { state: found, ...remember(known, acts, answers) };
  };

  const one = async (act: Act): Promise<Answer> => {
    const answer = await perform(db, sessionId, act);
    await compare([act], [answer]);
    return answer;
  };
  return {
    known: () => known,
    one,
    async together(scheduler: fc.Scheduler, acts: readonly Act[]): Promise<void> {
      const works = acts.map((act) => (own: Db) => perform(own, sessionId, act));
      await compare(acts, await connections.together(scheduler, works));
    },
    /** Acts as reliable workers and reconcilers and as people who answer, until the session is idle. */
    async playOut(): Promise<void> {
      for (let left = 60; left > 0; left -= 1) {
        const act = nextAct(known);
        if (act === null) return;
        await one(act);
      }
      throw new Error(`the session never becomes idle: ${tell([known.state])}`);
    },
  };
}

/** The next act of the workers, reconcilers and people who bring the session to its end. Null: it is idle. */
function nextAct({ state, hands }: Known): Act | null {
  const runId = state.session.activeRunId;
  const run = runId === null ? undefined : state.runs[runId];
  if (runId === null || run === undefined) return null;
  if (run.status === 'requires_action') {
    for (const { id, calls } of state.messages) {
      const no = calls.findIndex((call) => call.state === 'awaiting_approval');
      if (no >= 0) return { act: 'approve', runId, messageId: id, index: no + 1 };
    }
  }
  const hand = hands.find(({ claimId }) => claimId === run.claimId);
  if (run.claimId !== null && (hand === undefined || hand.epoch !== run.epoch)) return { act: 'recover', runId };
  if (hand === undefined) {
    if (run.pendingKind === null) return null;
    const job = { runId, kind: run.pendingKind, no: run.no, dispatch: run.dispatch };
    return { act: 'claim', job, claimId: newId(), messageId: newId() };
  }
  if (hand.job.kind !== 'step') return { act: 'finish-maintenance', hand, runKind: run.kind, nextRunId: newId() };
  return nextOfStep(state, hand, run.isCancelRequested);
}

function nextOfStep(state: ProtocolState, hand: Hand, isCancelled: boolean): Act {
  const message = state.messages.find(({ id }) => id === hand.openId);
  const finish = { act: 'finish', hand, last: null, asked: [], nextRunId: newId(), carry: null } as const;
  if (message === undefined) return { ...finish, ending: 'abort', isWritten: false };
  if (message.finishReason === null) {
    if (isCancelled) return { ...finish, ending: 'abort', isWritten: false };
    return message.id === hand.messageId ? { ...finish, ending: 'answer', isWritten: false } : { act: 'restart', hand };
  }
  const no = message.calls.findIndex((call) => !isSettledCall(call.state));
  if (no < 0) return { ...finish, ending: 'answer', isWritten: true };
  const isPending = message.calls[no]?.state === 'pending';
  return { act: 'move', hand, index: no + 1, move: isPending ? (isCancelled ? 'refuse' : 'start') : 'give up' };
}

type Answered = Readonly<{ act: Act; answer: Answer }>;

/** The model's state and answers after the acts in this order. `isAnswered`: its answers equal the store's. */
function predict(before: ProtocolState, order: readonly Answered[], fresh: readonly string[]) {
  let state = before;
  let isAnswered = true;
  const answers: Answer[] = [];
  for (const { act, answer } of order) {
    // A reconciler skips a session that is locked, and comes again.
    const isSkipped = order.length > 1 && act.act === 'recover' && answer['recovered'] === false;
    if (isSkipped) continue;
    const [after, expected] = step(state, act, fresh);
    state = after;
    answers.push(expected);
    isAnswered &&= isDeepStrictEqual(expected, answer);
  }
  return { state, answers, isAnswered };
}

/** Runs that the store has started under ids of its own. */
function freshRunIds(before: ProtocolState, acts: readonly Act[], found: ProtocolState): string[] {
  const named = JSON.stringify([before.session.nextRunId, acts]);
  return Object.keys(found.runs).filter((id) => before.runs[id] === undefined && !named.includes(id));
}

function remember({ jobs, hands }: Known, acts: readonly Act[], answers: readonly Answer[]): Omit<Known, 'state'> {
  let newHands = [...hands];
  const newJobs = [...jobs];
  for (const [no, act] of acts.entries()) {
    const answer = answers[no] ?? {};
    newJobs.unshift(...jobsIn(answer));
    if (act.act === 'claim' && answer['outcome'] === 'claimed') {
      const openId =
        answer['view'] !== null && act.job.kind === 'step' ? act.messageId : (answer['interrupted'] as string | null);
      const hand = {
        job: act.job,
        claimId: act.claimId,
        epoch: answer['epoch'] as number,
        messageId: act.messageId,
        openId,
      };
      newHands = [hand, ...newHands.filter(({ claimId }) => claimId !== act.claimId)];
    }
    if (act.act === 'finish') newHands.unshift(...carriedHand(act, answer));
    if (act.act === 'restart' && Array.isArray(answer['view'])) {
      const { claimId } = act.hand;
      newHands = newHands.map((hand) => (hand.claimId === claimId ? { ...hand, openId: hand.messageId } : hand));
    }
  }
  return { jobs: newJobs.slice(0, 8), hands: newHands.slice(0, 6) };
}

/** The step that the worker has begun with the end of the last one. */
function carriedHand({ carry }: Extract<Act, { act: 'finish' }>, answer: Answer): Hand[] {
  const claimed = answer['claimed'] as Readonly<{ epoch: number }> | null | undefined;
  const [job] = jobsIn(answer);
  if (carry === null || !claimed || job === undefined) return [];
  return [{ job, ...carry, epoch: claimed.epoch, openId: carry.messageId }];
}

const jobsIn = (answer: Answer): JobPayload[] =>
  [answer['jobs'], answer['job'], answer['toSettle']]
    .flat()
    .filter((job): job is JobPayload => typeof job === 'object' && job !== null);

const permutations = <T>(items: readonly T[]): T[][] =>
  items.length < 2
    ? [[...items]]
    : items.flatMap((item, no) => permutations(items.toSpliced(no, 1)).map((rest) => [item, ...rest]));

const tell = (...values: readonly unknown[]): string => values.map((value) => JSON.stringify(value)).join(' with ');
