import type { ModelRequest } from './messages.ts';
import type { Snapshot } from './snapshot.ts';

const NUMBERED = /<answer (\d+)>/g;

/**
 * What no provider would take, and answers that are not as the model gave them: cut off although the step was completed,
 * mixed with another one, or there twice.
 */
export function checkTranscripts({ messages }: Snapshot, requests: readonly ModelRequest[]): string[] {
  const invalid = requests.flatMap(({ violations }) => violations);
  const seen = new Set<string>();
  for (const { id, role, superseded, finishReason, parts } of messages) {
    if (role !== 'assistant' || superseded) continue;
    const text = parts.map(({ content }) => content.text ?? '').join('');
    const numbers = [...text.matchAll(NUMBERED)].map(([, number]) => number ?? '');
    for (const number of numbers) {
      if (seen.has(number)) invalid.push(`answer ${number} is there twice`);
      seen.add(number);
    }
    if (numbers.length > 1) invalid.push(`message ${id} has several answers in it`);
    const isWhole = finishReason === 'stop' || finishReason === 'tool-calls';
    if (isWhole && !(numbers.length === 1 && text.endsWith(`</answer ${numbers[0]}>`))) {
      invalid.push(`message ${id} was completed without its whole answer`);
    }
  }
  return invalid;
}
