import fc from 'fast-check';
import type { Part, ToolPart, ViewMessage } from '../../../src/domain/message.ts';
import { MODEL, signedReasoning, textOf } from './measure-view.ts';

const WORDS = ['river', 'stone', 'engine', 'letter', 'garden', 'window', 'signal', 'copper', 'harbor', 'violet'];

/** Prose of so many characters, the same for the same seed. */
function proseOf(seed: number, chars: number): string {
  let text = '';
  for (let at = seed; text.length < chars; at += 3) text += `${WORDS[at % WORDS.length]} `;
  return text.slice(0, chars);
}

/**
 * Lengths as in the recorded sessions, in characters: the most are short, a few are hundreds of times as long.
 * @param median half are below it
 * @param longest none is above it
 */
function length(median: number, longest: number): fc.Arbitrary<number> {
  return fc
    .noBias(fc.integer({ min: 0, max: 999 }))
    .map((rank) =>
      Math.min(longest, Math.ceil(median * (rank < 500 ? 0.1 + rank / 555 : (500 / (1_000 - rank)) ** 1.2))),
    );
}

const TOOLS = ['read', 'read', 'bash', 'bash', 'edit', 'write'] as const;

const call: fc.Arbitrary<ToolPart> = fc
  .record({
    toolName: fc.constantFrom(...TOOLS),
    file: fc.integer({ min: 0, max: 11 }),
    chars: length(900, 40_000),
    inputChars: length(300, 8_000),
    failed: fc.integer({ min: 0, max: 9 }),
    id: fc.integer({ min: 0, max: 30 }),
  })
  .map(({ toolName, file, chars, inputChars, failed, id }): ToolPart => {
    const path = `src/part-${file}.ts`;
    const written = { path, content: proseOf(id, inputChars) };
    const input = toolName === 'bash' ? { command: `grep -n x${id} .` } : toolName === 'read' ? { path } : written;
    const isError = failed === 0;
    return {
      type: 'tool',
      toolCallId: `call_${id}`,
      toolName,
      input,
      state: isError ? 'error' : 'completed',
      output: {
        type: isError ? 'error-text' : 'text',
        value: proseOf(id + file, isError ? Math.min(chars, 400) : chars),
      },
    };
  });

type Draft = Readonly<{ role: 'user' | 'assistant'; parts: Part[] }>;

const userMessage: fc.Arbitrary<Draft> = fc
  .record({ seed: fc.integer({ min: 0, max: 1_000 }), chars: length(120, 12_000) })
  .map(({ seed, chars }) => ({ role: 'user', parts: [textOf(`Request ${seed}: ${proseOf(seed, chars)}`)] }));

const step: fc.Arbitrary<Draft> = fc
  .record({
    calls: fc.oneof(
      { weight: 5, arbitrary: fc.array(call, { minLength: 1, maxLength: 1 }) },
      fc.array(call, { minLength: 2, maxLength: 6, size: 'max' }),
    ),
    chars: length(80, 2_000),
    reasons: fc.boolean(),
  })
  .map(({ calls, chars, reasons }) => ({
    role: 'assistant',
    parts: [...(reasons ? [signedReasoning(proseOf(chars, chars))] : []), textOf(proseOf(chars, chars)), ...calls],
  }));

const answer: fc.Arbitrary<Draft> = length(400, 6_000).map((chars) => ({
  role: 'assistant',
  parts: [textOf(proseOf(chars, chars))],
}));

/** A turn: what the user said, the steps that it took, and mostly an answer. */
const turn: fc.Arbitrary<Draft[]> = fc
  .record({
    said: fc.array(userMessage, { minLength: 1, maxLength: 2 }),
    steps: fc.array(step, { maxLength: 40, size: 'max' }),
    end: fc.option(answer, { freq: 1 }),
  })
  .map(({ said, steps, end }) => [...said, ...steps, ...(end === null ? [] : [end])]);

/** Messages of a session as the recorded ones are: few turns of many steps, file tools, some errors, parallel batches. */
export const conversation: fc.Arbitrary<ViewMessage[]> = fc
  .array(turn, { minLength: 1, maxLength: 6, size: 'max' })
  .map((turns) => numbered(turns.flat(), 1));

/** A conversation that goes on after another one. */
export function continued(
  messages: readonly ViewMessage[],
  more: readonly ViewMessage[],
  fromSeq: number,
): ViewMessage[] {
  return [...messages, ...numbered(more, fromSeq)];
}

function numbered(drafts: readonly Draft[] | readonly ViewMessage[], fromSeq: number): ViewMessage[] {
  return drafts.map(({ role, parts }, index) => {
    const seq = fromSeq + index;
    return { id: `m${seq}`, seq, role, model: role === 'assistant' ? MODEL : null, parts };
  });
}
