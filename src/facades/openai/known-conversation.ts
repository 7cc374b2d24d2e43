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

/** Whose conversation it is, and with which agent. */
export type ConversationOwner = Readonly<{ tenantId: string; agentName: string; owner: readonly unknown[] }>;

/** What a session that is locked now is to do about a request. */
export type KnownConversation = Readonly<
  /** It is asked what it was asked last. */
  | { kind: 'join' | 'resume'; turn: TakenTurn }
  /** It is told something new, and knows the rest. */
  | { kind: 'continue'; turn: TakenTurn; said: readonly ConversationMessage[] }
  /** Its run is about to end: look again then. */
  | { kind: 'wait'; runId: string }
>;

/** The session that was asked the same last. @param canWait whether to say so where its run is being stopped */
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

/** What a session that the caller has locked is to do about a request with its name. */
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

/** The session that knows the conversation but for what is new in it. @param canWait as for `takeRepeated` */
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

/** An answer that was cut off begins like the one that is kept. */
async function wasTold(tx: Tx, { turn }: TakenTurn, partial: string): Promise<boolean> {
  const texts = await readToldTexts(tx, turn.runId);
  const kept = texts.flatMap(({ text, isVoid }) => (isVoid ? [] : [text]));
  return [kept, texts.map(({ text }) => text)].some((each) => beginsAnswer(partial, each));
}
