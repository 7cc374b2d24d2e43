import { readTask, type Task } from './task.ts';

/** What the chain's model says, again and again. */
export const DELTA = 'and so it goes on, ';
/** 19. */
export const DELTA_CHARS = DELTA.length;

type Said = Readonly<{ role: string; text: string }>;

/**
 * Where a conversation is in the chain: the newest task counts, and what was answered after it. It is counted in the
 * prompt, so that everybody has to send the whole conversation.
 */
export function placeInChain(conversation: readonly Said[]): Readonly<{ task: Task; step: number }> {
  const at = conversation.findLastIndex(({ role }) => role === 'user');
  let step = 1;
  for (const { role } of conversation.slice(at)) if (role === 'assistant') step += 1;
  return { task: readTask(conversation[at]?.text ?? ''), step };
}
