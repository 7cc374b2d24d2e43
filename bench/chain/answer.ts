import { readTask, type Task } from './task.ts';

/** The text of every delta of the chain's model. */
export const DELTA = 'and so it goes on, ';
export const DELTA_CHARS = DELTA.length;

type Said = Readonly<{ role: string; text: string }>;

/**
 * Place of a conversation in the chain: its newest task and the answers since. It is counted from the prompt, so every
 * contestant has to send the whole conversation.
 */
export function placeInChain(conversation: readonly Said[]): Readonly<{ task: Task; step: number }> {
  const at = conversation.findLastIndex(({ role }) => role === 'user');
  let step = 1;
  for (const { role } of conversation.slice(at)) if (role === 'assistant') step += 1;
  return { task: readTask(conversation[at]?.text ?? ''), step };
}
