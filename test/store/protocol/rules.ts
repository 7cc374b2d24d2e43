import { isTerminalRun } from '../../../src/domain/run/run.ts';
import type { Act, Answer } from './acts.ts';
import type { ProtocolState } from './state.ts';

type Rule = (state: ProtocolState) => boolean;

/** Rules that must hold at every moment. */
const RULES: Readonly<Record<string, Rule>> = {
  'an accepted message waits or is in the transcript, never both, never twice': ({ inbox, messages }) =>
    Object.entries(inbox).every(([id, { takenSeq }]) => {
      const places = messages.filter(({ accepted }) => accepted.includes(id)).map(({ seq }) => seq);
      return takenSeq === null ? places.length === 0 : places.length === 1 && places[0] === takenSeq;
    }),
  'messages are numbered without a gap': ({ session, messages }) =>
    messages.length === session.messageSeq && messages.every(({ seq }, at) => seq === at + 1),
  'one run of a session is active, and the session knows it': ({ session, runs }) => {
    const active = Object.keys(runs).filter((id) => !isTerminalRun(runs[id]?.status ?? 'failed'));
    return active.length <= 1 && (active[0] ?? null) === session.activeRunId;
  },
  'an active run has an owner, a job to enqueue, or a wait': ({ runs }) =>
    Object.values(runs).every(
      ({ status, claimId, pendingKind }) =>
        isTerminalRun(status) || claimId !== null || pendingKind !== null || status === 'requires_action',
    ),
  'no worker has a run that ended or that waits': ({ runs }) =>
    Object.values(runs).every(
      ({ status, claimId }) => claimId === null || status === 'running' || status === 'cancelling',
    ),
  'no run is ahead of its session': ({ session, runs }) =>
    Object.values(runs).every(({ epoch }) => epoch <= session.epoch),
  'a step commits once': ({ messages }) => {
    const answers = messages.filter((each) => each.role === 'assistant' && !each.isSuperseded);
    return new Set(answers.map(({ runId, stepNo }) => `${runId} ${stepNo}`)).size === answers.length;
  },
  'at most one message is open, and its run is active': ({ messages, runs }) => {
    const open = messages.filter(
      (each) => each.role === 'assistant' && !each.isSuperseded && each.finishReason === null,
    );
    return open.length <= 1 && open.every(({ runId }) => !isTerminalRun(runs[runId]?.status ?? 'failed'));
  },
};

/** Names of the rules that do not hold. */
export const brokenRules = (state: ProtocolState): string[] =>
  Object.entries(RULES).flatMap(([name, holds]) => (holds(state) ? [] : [name]));

/** A record of the store's answers for one session. It does not depend on the rows of Postgres. */
export function createLedger() {
  const ended = new Set<string>();
  const finished = new Set<string>();
  const accepted = new Set<string>();
  const noteMove = ({ hand, index, move }: Extract<Act, { act: 'move' }>): void => {
    const call = `${hand.openId} ${index}`;
    if (ended.has(call)) throw new Error(`${move} of call ${call}, which has ended`);
    if (move !== 'start') ended.add(call);
  };
  const noteFinish = ({ hand, last }: Extract<Act, { act: 'finish' }>): void => {
    if (last !== null) ended.add(`${hand.openId} ${last}`);
    const { runId, no, dispatch } = hand.job;
    const job = `${runId} ${no} ${dispatch}`;
    if (finished.has(job)) throw new Error(`job ${job} has ended twice`);
    finished.add(job);
  };
  return {
    accepted: accepted as ReadonlySet<string>,
    /** Writes an answer down. @throws if it breaks a promise */
    note(act: Act, answer: Answer): void {
      if (act.act === 'send' && answer['error'] === undefined) accepted.add(act.messageId);
      if (act.act === 'move' && answer['moved'] === 'moved') noteMove(act);
      if (act.act === 'finish' && answer['fenced'] !== true) noteFinish(act);
    },
  };
}
