import type { ModelMessage } from '../model/model-message.ts';
import { type OriginOf, type ToModelOptions, toModelMessages } from '../model/model-messages.ts';
import type { ViewMessage } from '../transcript/message.ts';
import { estimateMessage, totalOf } from './meter/message-tokens.ts';
import type { TokenCounter } from './meter/tokens.ts';

export type ShownMessage = Readonly<{
  message: ModelMessage;
  /** Numbers of the transcript's messages that it is made of. */
  seqs: readonly number[];
  /** Estimated, before the ratio. A page counts only its own messages. */
  countTokens: () => number;
}>;

/** The view as a request shows it, with origins and sizes; by default without the notice after a last assistant message. */
export function showRequest(
  view: readonly ViewMessage[],
  count: TokenCounter,
  options: ToModelOptions & Readonly<{ endsWithNotice?: boolean }>,
): ShownMessage[] {
  const seqs: number[][] = [];
  const originOf: OriginOf = ({ seq }, from, upto) => {
    for (let at = from; at < upto; at += 1) seqs[at] = [...(seqs[at] ?? []), seq];
  };
  const messages = toModelMessages(view, { endsWithNotice: false, ...options }, originOf);
  const bySeq = new Map(view.map((message) => [message.seq, message]));
  const sizeIn = (seq: number, role: ModelMessage['role']): number => {
    const message = bySeq.get(seq);
    return message === undefined ? 0 : tokensIn(message, role, count, options.model);
  };
  return messages.map((message, at) => {
    const ofMessage = seqs[at] ?? [];
    const countTokens = () => ofMessage.reduce((sum, seq) => sum + sizeIn(seq, message.role), 0);
    return { message, seqs: ofMessage, countTokens };
  });
}

/** A step is an assistant message and one with its results. Files of results count with them, wherever they stand. */
function tokensIn(message: ViewMessage, role: ModelMessage['role'], count: TokenCounter, model: string): number {
  const tokens = estimateMessage(message, count, { model });
  if (message.role === 'user') return totalOf(tokens);
  if (role === 'user') return 0;
  return role === 'tool' ? tokens.toolResults : totalOf(tokens) - tokens.toolResults;
}
