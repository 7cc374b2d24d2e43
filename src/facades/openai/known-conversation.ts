import { planContinuation, planRepetition, type Repetition } from '../../domain/run/turn.ts';
import {
  beginsAnswer,
  type Continuation,
  type ConversationMessage,
  continuationsOf,
  type SplitConversation,
} from '../../domain/transcript/conversation.ts';
import { readToldTexts, type TakenTurn, takeTurn } from '../../store/conversations.ts';
import type { Tx } from '../../store/database.ts';
import { hashOf } from './conversation-hash.ts';

export type ConversationOwner = Readonly<{ tenantId: string; agentName: string; owner: readonly unknown[] }>;

/** How a session, now locked, proceeds with a request. */
export type KnownConversation = Readonly<
  /** The request repeats the session's last one. */
  | { kind: 'join' | 'resume'; turn: TakenTurn }
  /** The request has new messages; the session knows the others. */
  | { kind: 'continue'; turn: TakenTurn; said: readonly ConversationMessage[] }
  /** The run is about to end: look again afterwards. */
  | { kind: 'wait'; runId: string }
>;

/**
 * Finds and locks the session whose last request was the same.
 * @param canWait whether `wait` may be returned while the run is being stopped
 */
export async function takeRepeated(
  tx: Tx,
  { tenantId, agentName }: ConversationOwner,
  asked: Uint8Array,
  repetition: Repetition,
  canWait: boolean,
): Promise<KnownConversation | null> {
  const planOf = (turn: TakenTurn) => {
    const plan = planRepetition(turn, repetition);
    return plan === 'wait' && !canWait ? null : plan;
  };
  const turn = await takeTurn(tx, { tenantId, agentName }, { asked }, (seen) => planOf(seen) !== null);
  return turn === null ? null : toKnown(turn, planOf(turn));
}

/** How a session that the caller has locked by name proceeds with a repeated request; null: it is no repetition. */
export function judgeRepeated(
  turn: TakenTurn | null,
  asked: Uint8Array,
  repetition: Repetition,
  canWait: boolean,
): KnownConversation | null {
  if (turn === null || Buffer.compare(turn.asked, asked) !== 0) return null;
  const plan = planRepetition(turn, repetition);
  return plan === 'wait' && !canWait ? null : toKnown(turn, plan);
}

function toKnown(turn: TakenTurn, plan: ReturnType<typeof planRepetition>): KnownConversation | null {
  if (plan === null) return null;
  return plan === 'wait' ? { kind: plan, runId: turn.turn.runId } : { kind: plan, turn };
}

/** Finds and locks the session that knows all but the new messages. @param canWait as for `takeRepeated` */
export async function takeContinued(
  tx: Tx,
  owner: ConversationOwner,
  split: SplitConversation,
  canWait: boolean,
): Promise<KnownConversation | null> {
  for (const continuation of continuationsOf(split)) {
    const found = await takeAt(tx, owner, continuation, canWait);
    if (found !== null) return found;
  }
  return null;
}

async function takeAt(
  tx: Tx,
  { tenantId, agentName, owner }: ConversationOwner,
  { known, partial, said }: Continuation,
  canWait: boolean,
): Promise<KnownConversation | null> {
  const hash = hashOf(owner, known);
  const planOf = async (turn: TakenTurn): Promise<'take' | 'wait' | null> => {
    const plan = planContinuation(turn, partial);
    if (plan === 'wait' && (canWait || turn.hasReader)) return canWait ? plan : null;
    const isOf = plan === null || partial === null || partial === '' || (await wasTold(tx, turn, partial));
    return plan !== null && isOf ? 'take' : null;
  };
  const place = partial === null ? { answered: hash } : { asked: hash };
  const turn = await takeTurn(tx, { tenantId, agentName }, place, async (seen) => (await planOf(seen)) !== null);
  if (turn === null) return null;
  if ((await planOf(turn)) === 'wait') return { kind: 'wait', runId: turn.turn.runId };
  return { kind: 'continue', turn, said };
}

/** Whether the client's partial answer begins like the run's answer, without or with the text of voided attempts. */
async function wasTold(tx: Tx, { turn }: TakenTurn, partial: string): Promise<boolean> {
  const texts = await readToldTexts(tx, turn.runId);
  const kept = texts.flatMap(({ text, isVoid }) => (isVoid ? [] : [text]));
  return [kept, texts.map(({ text }) => text)].some((each) => beginsAnswer(partial, each));
}
