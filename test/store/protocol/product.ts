import { NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { BatonError } from '../../../src/domain/errors.ts';
import { MAX_RESUMES_PER_STEP } from '../../../src/domain/tunables.ts';
import { NO_USAGE } from '../../../src/domain/usage.ts';
import { newId } from '../../../src/platform/new-id.ts';
import { answerCall } from '../../../src/store/changes/call-answers.ts';
import { requestCancel } from '../../../src/store/changes/cancels.ts';
import { requestMaintenance } from '../../../src/store/changes/maintenance.ts';
import { retryFailedRun } from '../../../src/store/changes/retry-run.ts';
import type { Db } from '../../../src/store/db/database.ts';
import {
  claimRun,
  type Fence,
  handBackRun,
  renewLeases,
  requeueLostRuns,
  restartStep,
} from '../../../src/store/work/claims.ts';
import { lockExpiredLeases, redispatch } from '../../../src/store/work/lost-work.ts';
import { finishMaintenance } from '../../../src/store/work/maintenance.ts';
import { noteOutsideWork } from '../../../src/store/work/outside-work.ts';
import { failClaimedRun, failRun } from '../../../src/store/work/run-failure.ts';
import { finishStep, moveCalls, writeResponse } from '../../../src/store/work/step-writes.ts';
import { acceptMessage, resumeSession } from '../../support/unlimited.ts';
import { type Act, type Answer, CALL_MOVES, type Hand } from './acts.ts';
import { callPart, keptOf, MODEL_ERROR, planOf, planOfMaintenance, responseOf, stepsOf } from './plans.ts';

type Perform<A> = (db: Db, sessionId: string, act: A) => Promise<Answer>;

/** A lease that has run out already: any claim may be taken back at any time, as from a hung worker. */
const RAN_OUT_MS = -1_000;

const fenceOf = ({ job, epoch, claimId }: Hand): Fence => ({ runId: job.runId, epoch, claimId });

const orFenced = <T>(value: T | null, answer: (value: T) => Answer): Answer =>
  value === null ? { fenced: true } : answer(value);

const messageIds = (view: readonly Readonly<{ id: string }>[] | null): string[] | null =>
  view === null ? null : view.map(({ id }) => id);

const PERFORM: { readonly [K in Act['act']]: Perform<Extract<Act, { act: K }>> } = {
  async send(db, sessionId, { delivery, messageId, runId }) {
    const content = [{ type: 'text', text: 'Go' }] as const;
    const sent = await acceptMessage(db, { tenantId: 'default', sessionId, messageId, content, delivery, runId });
    const { queued, job, cancelled } = sent;
    return { runId: sent.runId, queued, job, cancelled: cancelled?.status ?? null, toSettle: cancelled?.job ?? null };
  },
  async cancel(db, _, { runId }) {
    const { status, job } = await requestCancel(db, 'default', runId);
    return { status, job };
  },
  async resume(db, sessionId, { runId }) {
    const resumed = await resumeSession(db, { tenantId: 'default', sessionId, runId, limits: {} });
    return { runId: resumed.runId, job: resumed.job };
  },
  async 'retry-failed'(db, _, { runId }) {
    const retried = await retryFailedRun(db, runId);
    return { job: typeof retried === 'string' ? retried : retried.job };
  },
  async request(db, sessionId, { kind, runId }) {
    const requested = await requestMaintenance(db, { tenantId: 'default', sessionId, kind, runId });
    return { runId: requested.runId, job: requested.job };
  },
  async approve(db, _, { runId, messageId, index }) {
    const { open, job } = await answerCall(db, { tenantId: 'default', runId, messageId, index }, { kind: 'approve' });
    return { open, job };
  },
  async claim(db, _, { job, claimId, messageId }) {
    const input = { job, claimId, workerId: claimId, leaseDurationMs: RAN_OUT_MS, messageId };
    const claim = await claimRun(db, input);
    if (claim.outcome !== 'claimed') return { outcome: claim.outcome };
    const { outcome, epoch, cancelRequested, interruptedMessageId: interrupted, messageSeq } = claim;
    return { outcome, epoch, cancelRequested, interrupted, messageSeq, view: messageIds(claim.view) };
  },
  async beat(db, _, { hand }) {
    const [answer] = await renewLeases(db, [fenceOf(hand)], RAN_OUT_MS);
    return answer === undefined ? { held: false } : { held: true, cancelRequested: answer.cancelRequested };
  },
  async restart(db, _, { hand }) {
    const broken = hand.openId === null ? null : { messageId: hand.openId, events: [] };
    const restarted = await restartStep(db, fenceOf(hand), hand.messageId, broken);
    return orFenced(restarted, ({ messageSeq, view }) => ({ messageSeq, view: messageIds(view) }));
  },
  async respond(db, _, { hand, calls }) {
    const parts = Array.from({ length: calls }, (_call, no) => callPart(no, no === 0 ? 'running' : 'pending'));
    const text = { type: 'text', text: 'I look.' } as const;
    const response = { messageId: hand.openId ?? '', parts: [text, ...parts], finishReason: 'tool-calls' } as const;
    const written = await writeResponse(db, fenceOf(hand), response, []);
    return orFenced(written, ({ mayStart }) => ({ mayStart }));
  },
  async move(db, _, { hand, index, move }) {
    const { from, to } = CALL_MOVES[move];
    const moves = [{ messageId: hand.openId ?? '', index, from, to, events: [] }];
    return orFenced(await moveCalls(db, fenceOf(hand), moves), ({ answers }) => ({ moved: answers[0] }));
  },
  async note(db, _, { hand, index }) {
    return { noted: await noteOutsideWork(db, fenceOf(hand), { messageId: hand.openId ?? newId(), index }, 'task-1') };
  },
  async finish(db, _, finish) {
    const { hand, last, nextRunId, carry } = finish;
    const response = responseOf(finish);
    const kept = keptOf(finish);
    const { from, to } = CALL_MOVES.complete;
    const finished = await finishStep(db, fenceOf(hand), {
      ...(response !== undefined && { response }),
      ...(kept !== undefined && { keptIfCancelled: { response: kept, events: [] } }),
      moves: last === null ? [] : [{ messageId: hand.openId ?? '', index: last, from, to, events: [] }],
      usage: NO_USAGE,
      costUsd: 0,
      steps: stepsOf(finish),
      events: [],
      next: planOf(finish),
      nextRunId,
      ...(carry && { carryOn: { ...carry, leaseDurationMs: RAN_OUT_MS, tenantConcurrency: 0, known: undefined } }),
    });
    return orFenced(finished, ({ branch, jobs, claimed }) => ({
      branch,
      jobs,
      claimed: claimed && { epoch: claimed.epoch, messageSeq: claimed.messageSeq, view: messageIds(claimed.view) },
    }));
  },
  async 'finish-maintenance'(db, _, finish) {
    const finished = await finishMaintenance(db, fenceOf(finish.hand), {
      marks: [],
      contextState: NEW_CONTEXT_STATE,
      usage: NO_USAGE,
      costUsd: 0,
      events: [],
      next: planOfMaintenance(finish),
      nextRunId: finish.nextRunId,
    });
    return orFenced(finished, ({ branch, jobs }) => ({ branch, jobs }));
  },
  async 'hand-back'(db, _, { hand }) {
    return orFenced(await handBackRun(db, fenceOf(hand)), (job) => ({ job }));
  },
  async fail(db, _, { hand }) {
    return orFenced(await failClaimedRun(db, fenceOf(hand), MODEL_ERROR), () => ({ failed: true }));
  },
  recover(db, sessionId, { runId }) {
    return db.transaction().execute(async (tx) => {
      const [lost] = await lockExpiredLeases(tx, [{ id: runId, sessionId, resumeCount: 0 }]);
      if (lost === undefined) return { recovered: false };
      if (lost.resumeCount >= MAX_RESUMES_PER_STEP) await failRun(tx, sessionId, runId, MODEL_ERROR);
      else await requeueLostRuns(tx, [runId]);
      return { recovered: true };
    });
  },
  async redispatch(db, _, { job }) {
    const again = await redispatch(db, job);
    if (again === null) return { job: null };
    const { runId, kind, no, dispatch } = again;
    return { job: { runId, kind, no, dispatch } };
  },
};

/** Does it with the functions of the product. A typed refusal is an answer. */
export async function perform(db: Db, sessionId: string, act: Act): Promise<Answer> {
  try {
    return await (PERFORM[act.act] as Perform<Act>)(db, sessionId, act);
  } catch (error) {
    if (error instanceof BatonError && error.code !== 'internal') return { error: error.code };
    throw error;
  }
}
