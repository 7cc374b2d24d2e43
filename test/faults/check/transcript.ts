import type { ModelRequest } from './messages.ts';
import { ENDED, type Snapshot, type StoredMessage } from './snapshot.ts';

const NUMBERED = /<answer (\d+)>/g;

/** The numbers of the answers that begin in a text. */
export const numbersIn = (text: string): number[] => [...text.matchAll(NUMBERED)].map(([, number]) => Number(number));

/** The numbers of the answers that a message begins. */
export const answersIn = (message: StoredMessage): number[] => numbersIn(wordsOf(message));

const wordsOf = ({ parts }: StoredMessage): string => parts.map(({ content }) => content.text ?? '').join('');

/**
 * What no provider would take, and answers that are not as the model gave them: cut off although the step was
 * completed, mixed with another one, or there twice. A run that has ended leaves none of them open.
 */
export function checkTranscripts({ messages, runs }: Snapshot, requests: readonly ModelRequest[]): string[] {
  const invalid = requests.flatMap(({ violations }) => violations);
  const ended = new Set(runs.flatMap(({ id, status }) => (ENDED.includes(status) ? [id] : [])));
  const seen = new Set<number>();
  for (const message of messages) {
    const { id, role, runId, superseded, finishReason } = message;
    if (role !== 'assistant' || superseded) continue;
    if (finishReason === null && runId !== null && ended.has(runId)) {
      invalid.push(`message ${id} of ended run ${runId} has no end`);
    }
    const numbers = answersIn(message);
    for (const number of numbers) {
      if (seen.has(number)) invalid.push(`answer ${number} is there twice`);
      seen.add(number);
    }
    if (numbers.length > 1) invalid.push(`message ${id} has several answers in it`);
    const isWhole = finishReason === 'stop' || finishReason === 'tool-calls';
    if (isWhole && !(numbers.length === 1 && wordsOf(message).endsWith(`</answer ${numbers[0]}>`))) {
      invalid.push(`message ${id} was completed without its whole answer`);
    }
  }
  return invalid;
}
