import { expect, test } from 'vitest';
import { contentTokens, costUnits, largestMessageTokens, rawConversation } from '../../../eval/metrics/costs.ts';
import { countText, FRAMING } from '../../../simulator/tokens.ts';
import { recordingOf } from '../replay-fixture.ts';
import { callOf, refused } from './journal-fixture.ts';

test('a cached token costs a tenth, a new one a quarter more than a plain one, an output token five', () => {
  const calls = [callOf({ promptTokens: 100 }), callOf({ promptTokens: 140, cachedTokens: 100, summary: true })];
  expect(costUnits(calls)).toEqual({ cached: 100 * 1.25 + 100 * 0.1 + 40 * 1.25 + 100, uncached: 240 + 100 });
});

test('what was refused costs nothing, what was cut off what it was billed', () => {
  const cut = callOf({ outcome: 'aborted-by-client', promptTokens: 40 });
  expect(costUnits([refused({ promptTokens: 1000 }), cut])).toEqual({ cached: 100, uncached: 90 });
});

const TEXT = 'The kettle whistled before anyone had filled it.';
const LONG = TEXT.repeat(4);
const step = (text: string, output?: string) => ({
  type: 'step',
  text,
  toolCalls: output === undefined ? [] : [{ id: 'a', name: 'look', input: {}, output }],
  finishReason: 'stop',
});

test('the raw conversation pays each token once as new and then as cached at every later call', () => {
  const recording = recordingOf([
    { type: 'user', text: 'Go.' },
    step(TEXT),
    { type: 'user', text: TEXT },
    step('Done.'),
  ]);
  const [text, done] = [countText(TEXT), countText('Done.')];
  const raw = { recording, firstPromptTokens: 100, factorOf: () => 1, closingTokens: null };
  const added = FRAMING.message + text + FRAMING.message + text;
  const again = FRAMING.message + done;
  const expected = 100 * 1.25 + text * 5 + (100 * 0.1 + added * 1.25 + done * 5);
  const rawUnits = (given = {}): number => rawConversation({ ...raw, ...given }).costUnits;
  expect(rawUnits()).toBe(Math.round(expected));
  expect(rawUnits({ closingTokens: 2 })).toBe(Math.round(expected + (100 + added) * 0.1 + again * 1.25 + 2 * 5));
  expect(rawUnits({ factorOf: (call: number) => 1 + call })).toBe(Math.round(expected * 2 - (125 + text * 5)));
  expect(rawConversation(raw).largestPrompt).toBe(100 + added);
});

test('the largest message is one of the user’s or the model’s, at the rate of its step', () => {
  const recording = recordingOf([{ type: 'user', text: LONG }, step('Go.', LONG.repeat(9)), step(LONG)]);
  expect(largestMessageTokens(recording, () => 1)).toBe(countText(LONG));
  expect(largestMessageTokens(recording, (call) => 1 + call)).toBe(2 * countText(LONG));
});

test('the content holds every message, call and result', () => {
  const recording = recordingOf([{ type: 'user', text: 'Go.' }, step('', TEXT)]);
  const call = FRAMING.toolCall + countText('look') + countText('{}');
  const expected = FRAMING.message + countText('Go.') + call + FRAMING.toolResult + countText(TEXT);
  expect(contentTokens(recording)).toBe(expected);
});
