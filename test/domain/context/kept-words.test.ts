import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readSummary, userText } from '../../../src/domain/context/compaction/summary-document.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { fileRef, messageRef } from '../../../src/domain/transcript/refs.ts';
import { inWire, wireText } from './any-compaction.ts';
import { compacted, plan, thresholdsFor } from './compaction-view.ts';
import { assistantOf, callOf, textOf, userOf } from './measure-view.ts';

const WINDOWS = [16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000] as const;

const attached = (name: string): Part => ({
  type: 'file',
  mediaType: 'image/png',
  filename: name,
  url: `@blob:${name}`,
  sizeBytes: 2_000,
});

type Said = Readonly<{ text: string; files: readonly string[] }>;
const anySaid = (maxChars: number): fc.Arbitrary<Said> =>
  fc.record({
    text: fc.integer({ min: 1, max: maxChars }).map((chars) => `${'word '.repeat(chars / 5)}end`),
    files: fc.array(fc.constantFrom('a.png', 'b.png', 'my "c".png'), { maxLength: 2 }),
  });

const session = fc.record({
  window: fc.constantFrom(...WINDOWS),
  /** Up to 20 000 tokens. */
  first: anySaid(80_000),
  later: fc.array(anySaid(2_000), { minLength: 5, maxLength: 5 }),
  rounds: fc.integer({ min: 1, max: 5 }),
});

/** Adds a user message with its text and files, and then steps until the window is full. */
function worked(view: readonly ViewMessage[], said: Said, window: number): ViewMessage[] {
  const { usableTokens } = thresholdsFor(window);
  const from = (view.at(-1)?.seq ?? 0) + 1;
  const steps = Array.from({ length: 12 }, (_, at) =>
    assistantOf(from + 1 + at, textOf('On it.'), callOf({ path: `f${at}.ts` }, 'x'.repeat((usableTokens * 4) / 13))),
  );
  return [...view, userOf(from, textOf(said.text), ...said.files.map(attached)), ...steps];
}

describe('after every compaction of a session, whatever its window, what the user said', () => {
  it('is in the request or named by an id, with its files; the task whole up to a quarter of what is aimed at', () => {
    let rounds = 0;
    fc.assert(
      fc.property(session, ({ window, first: task, later, rounds: count }) => {
        const thresholds = thresholdsFor(window);
        // The first text is cut: one that no window can hold beside an answer ends the run, which is no matter of
        // compactions.
        const first = { ...task, text: task.text.slice(0, 4 * 0.4 * thresholds.usableTokens) };
        const said = new Map<number, Said>();
        let view: readonly ViewMessage[] = [];
        for (const message of [first, ...later].slice(0, count)) {
          said.set((view.at(-1)?.seq ?? 0) + 1, message);
          view = worked(view, message, window);
          const planned = plan(view, thresholds);
          expect(planned.kind).toBe('compact');
          if (planned.kind !== 'compact') return;
          view = compacted(planned, thresholds, (view.at(-1)?.seq ?? 0) + 1);
          rounds++;
          expectReadable(view, said);
          expectTask(view, first, thresholds.compactToTokens / 4);
        }
      }),
    );
    expect(rounds).toBeGreaterThan(60);
  });
});

function expectReadable(view: readonly ViewMessage[], said: ReadonlyMap<number, Said>): void {
  const text = wireText(view);
  for (const [seq, { files }] of said) {
    if (view.some((message) => message.seq === seq)) continue;
    expect(text).toMatch(new RegExp(`\\b${messageRef(seq)}\\b`));
    for (const at of files.keys()) expect(text).toContain(`${fileRef(seq, at + 1)} image/png`);
  }
}

/** Expects the task as the user gave it. A task that is larger than its share is shown by its ends and its id. */
function expectTask(view: readonly ViewMessage[], { text }: Said, limitTokens: number): void {
  const { firstUser, carried = [] } = readSummary(view) ?? {};
  const shown = firstUser?.at === 'summary' ? firstUser.text : (userText(carried) ?? '');
  if (text.length / 4 <= limitTokens) expect(shown).toBe(text);
  else if (firstUser?.at === 'summary')
    expect(shown).toMatch(/cut out: read it whole with read_tool_output, id msg_1\]/);
  expect(wireText(view)).toContain(inWire(shown));
}

it('a task of 20 000 tokens is whole in the summary of a 200k model', () => {
  expect(thresholdsFor(200_000).compactToTokens / 4).toBeGreaterThanOrEqual(20_000);
});
