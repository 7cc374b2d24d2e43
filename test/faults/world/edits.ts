import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import type { Resumption } from '../check/edits.ts';
import type { AcceptedMessage } from '../check/messages.ts';
import { type Api, Refused } from './api.ts';

/** Chances per run that people change the messages that wait behind it, and of the ways in which they ask for more. */
export type EditOptions = Readonly<{
  /** A message is sent to wait; then it gets another content, is moved into the run, or is taken back. */
  editChance: number;
  moveChance: number;
  removeChance: number;
  /** All waiting messages are taken back. */
  clearChance: number;
  /** A message is sent that the session may only take while nothing is at work. */
  rejectChance: number;
  /** A message is sent several times under one `Idempotency-Key`. */
  repeatChance: number;
  /** After a run, the session is asked to go on with the waiting messages, before the next message is sent. */
  resumeChance: number;
}>;

export const NO_EDITS: EditOptions = {
  editChance: 0,
  moveChance: 0,
  removeChance: 0,
  clearChance: 0,
  rejectChance: 0,
  repeatChance: 0,
  resumeChance: 0,
};

/** A message with its sender's present knowledge of it. */
export type SentMessage = { -readonly [Key in keyof AcceptedMessage]: AcceptedMessage[Key] };

/** One person's messages to one session. */
type Post = Readonly<{
  sessionId: string;
  /** By the message's id. */
  sent: ReadonlyMap<string, SentMessage>;
  newToken: () => string;
  contentOf: (token: string) => string;
  sendWaiting: () => Promise<string>;
  remember: (message: SentMessage) => void;
}>;

/** Outcomes of edits beside the accepted messages. */
export type Edits = Readonly<{
  /** Tokens of messages that were refused. */
  refused: string[];
  /** Repetitions that were not answered like the first request. */
  wrongReplays: string[];
  resumptions: Resumption[];
}>;

const EDITED_WITHIN_MS = 120;
const REPETITIONS = 3;

type Editing = Readonly<{
  acts: (options: EditOptions) => readonly (readonly [chance: number, act: () => Promise<void>])[];
}>;

/** The ways in which people change their minds about their messages. */
export function createEditing(api: Api, post: Post, edits: Edits, random: Random, signal: AbortSignal): Editing {
  const { sessionId } = post;
  const later = (): Promise<void> => delay(random.between(0, EDITED_WITHIN_MS), undefined, { signal });
  const messageOf = (id: string): SentMessage => {
    const message = post.sent.get(id);
    if (message === undefined) throw new Error(`nobody has sent ${id}`);
    return message;
  };
  const edit = async (): Promise<void> => {
    const message = messageOf(await post.sendWaiting());
    await later();
    const token = post.newToken();
    const outcome = await api.change(sessionId, message.messageId, { content: post.contentOf(token) });
    if (outcome === 'done') {
      message.formerTokens = [...(message.formerTokens ?? []), message.token];
      message.token = token;
    } else edits.refused.push(token);
  };
  const move = async (): Promise<void> => {
    const message = messageOf(await post.sendWaiting());
    await later();
    if ((await api.change(sessionId, message.messageId, { delivery: 'steer' })) === 'done') message.isMoved = true;
  };
  const remove = async (): Promise<void> => {
    const message = messageOf(await post.sendWaiting());
    await later();
    if ((await api.remove(sessionId, message.messageId)) === 'done') message.isRemoved = true;
  };
  const clear = async (): Promise<void> => {
    await post.sendWaiting();
    await later();
    for (const id of await api.clear(sessionId)) messageOf(id).isRemoved = true;
  };
  const reject = async (): Promise<void> => {
    const token = post.newToken();
    const id = newMessageId();
    try {
      const { runId } = await api.send(sessionId, { id, content: post.contentOf(token), delivery: 'reject' });
      post.remember({ sessionId, messageId: id, runId, token, delivery: 'steer', isUnordered: true });
    } catch (error) {
      if (!(error instanceof Refused && error.status === 409)) throw error;
      edits.refused.push(token);
    }
  };
  const repeat = async (): Promise<void> => {
    const token = post.newToken();
    const key = crypto.randomUUID();
    const message = { content: post.contentOf(token), delivery: 'steer' } as const;
    const answers = await Promise.all(Array.from({ length: REPETITIONS }, () => api.sendOnce(sessionId, key, message)));
    const [first] = answers;
    if (first === undefined) return;
    const { messageId, runId } = first.accepted;
    post.remember({ sessionId, messageId, runId, token, delivery: 'steer', isUnordered: true });
    const bodies = new Set(answers.map(({ accepted }) => JSON.stringify(accepted)));
    const replays = answers.filter(({ isReplay }) => isReplay).length;
    if (bodies.size !== 1) edits.wrongReplays.push(`${token} was answered in ${bodies.size} ways`);
    if (replays !== REPETITIONS - 1) edits.wrongReplays.push(`${token}: ${replays} of ${REPETITIONS} were replays`);
  };
  return {
    acts: (options) => [
      [options.editChance, edit],
      [options.moveChance, move],
      [options.removeChance, remove],
      [options.clearChance, clear],
      [options.rejectChance, reject],
      [options.repeatChance, repeat],
    ],
  };
}

/** Resumes a session with the messages that a cancelled run left. Null: none waited, or the session was at work. */
export async function resumeWaiting(api: Api, sessionId: string, edits: Edits): Promise<string | null> {
  const waiting = await api.waiting(sessionId);
  if (waiting.length === 0) return null;
  try {
    const runId = await api.resume(sessionId);
    edits.resumptions.push({ runId, messageIds: waiting });
    return runId;
  } catch (error) {
    if (error instanceof Refused && error.status === 409) return null;
    throw error;
  }
}

/**
 * Number of messages that were changed, moved, taken back or refused, and of sessions that were asked to go on.
 */
export function changesOf(messages: readonly AcceptedMessage[], { refused, resumptions }: Edits): number {
  const changed = messages.filter(
    ({ formerTokens, isMoved, isRemoved }) => formerTokens !== undefined || isMoved === true || isRemoved === true,
  );
  return changed.length + refused.length + resumptions.length;
}

export const newMessageId = (): string => `msg_${crypto.randomUUID().replaceAll('-', '')}`;
