import type { RecordedStep, Recording } from '../../simulator/recording.ts';
import { countText, FRAMING } from '../../simulator/tokens.ts';
import { servedCalls, type TracedCall } from './traced-call.ts';

/** Typical prices of the large providers, in units of one plain input token. */
export const UNIT_PRICES = { cachedInput: 0.1, cacheWrite: 1.25, output: 5 } as const;

/** Cost of the calls with a prefix cache and without one, in units of one plain input token. Summaries are included. */
export function costUnits(calls: readonly TracedCall[]): { cached: number; uncached: number } {
  let [cached, uncached] = [0, 0];
  for (const { promptTokens, cachedTokens, usage } of servedCalls(calls)) {
    const output = (usage?.output ?? 0) * UNIT_PRICES.output;
    cached += callUnits(cachedTokens, promptTokens - cachedTokens) + output;
    uncached += promptTokens + output;
  }
  return { cached: Math.round(cached), uncached: Math.round(uncached) };
}

const callUnits = (cached: number, written: number): number =>
  cached * UNIT_PRICES.cachedInput + written * UNIT_PRICES.cacheWrite;

export type RawConversation = Readonly<{
  recording: Recording;
  /** Counted tokens of the first request: instructions, tools and the user's first messages. */
  firstPromptTokens: number;
  /** Real tokens per counted token at each call. */
  factorOf: (call: number) => number;
  /** Counted tokens of the answer to the request after the recorded ones. Null: there is no such request. */
  closingTokens: number | null;
}>;

/**
 * Cost and largest prompt of the same conversation without any compaction or prune, with an unlimited window and a
 * prefix cache that never expires.
 */
export function rawConversation({ recording, firstPromptTokens, factorOf, closingTokens }: RawConversation): {
  costUnits: number;
  largestPrompt: number;
} {
  const from = recording.entries.findIndex((entry) => entry.type === 'step');
  let [units, call, cached, prompt, largestPrompt] = [0, 0, 0, firstPromptTokens, 0];
  const ask = (output: number): void => {
    units += factorOf(call) * (callUnits(cached, prompt - cached) + output * UNIT_PRICES.output);
    largestPrompt = Math.max(largestPrompt, Math.round(factorOf(call) * prompt));
    call += 1;
    cached = prompt;
  };
  for (const entry of recording.entries.slice(Math.max(0, from))) {
    if (entry.type === 'user') {
      prompt += FRAMING.message + countText(entry.text);
      continue;
    }
    const tokens = stepTokens(entry);
    ask(tokens.output);
    prompt += tokens.framing + tokens.output + tokens.results;
  }
  if (closingTokens !== null) ask(closingTokens);
  return { costUnits: Math.round(units), largestPrompt };
}

type StepTokens = Readonly<{ output: number; results: number; framing: number }>;

function stepTokens({ text, reasoning, toolCalls }: RecordedStep): StepTokens {
  let output = countText(text) + countText(reasoning ?? '');
  let results = 0;
  for (const call of toolCalls) {
    output += FRAMING.toolCall + countText(call.name) + countText(JSON.stringify(call.input));
    results += FRAMING.toolResult + countText(call.output);
  }
  // Framing of a text that is sent again. For calls and results their tokens include it.
  return { output, results, framing: text === '' ? 0 : FRAMING.message };
}

/** Real tokens of the largest single message. No compaction can make it smaller. */
export function largestMessageTokens({ entries }: Recording, factorOf: RawConversation['factorOf']): number {
  let [largest, step] = [0, 0];
  for (const entry of entries) {
    const tokens = entry.type === 'user' ? countText(entry.text) : stepTokens(entry).output;
    largest = Math.max(largest, tokens * factorOf(step));
    if (entry.type === 'step') step += 1;
  }
  return Math.round(largest);
}

/** Counted tokens of the whole recording; a window without compaction would have to hold them. */
export function contentTokens(recording: Recording): number {
  return recording.entries.reduce((sum, entry) => {
    if (entry.type === 'user') return sum + FRAMING.message + countText(entry.text);
    const { output, results } = stepTokens(entry);
    return sum + output + results;
  }, 0);
}
