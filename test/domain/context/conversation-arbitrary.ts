import fc from 'fast-check';
import type { Json, Part, ToolPart, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { json } from '../view-arbitrary.ts';
import { MODEL, signedReasoning, textOf } from './measure-view.ts';
import {
  type Quantiles,
  RECORDED_LENGTHS,
  RECORDED_SHARES,
  RECORDED_STEPS_PER_TURN,
  valueAt,
} from './recorded-statistics.ts';

const WORDS = ['river', 'stone', 'engine', 'letter', 'garden', 'window', 'signal', 'copper', 'harbor', 'violet'];
/** Built once, because thousands of long conversations take pieces of it. */
const PROSE = Array.from({ length: 12_000 }, (_, at) => WORDS[(at * at + 3 * at) % WORDS.length]).join(' ');

/** Prose of this length, the same for the same seed. */
const proseOf = (seed: number, chars: number): string => PROSE.slice(seed % 1_000, (seed % 1_000) + chars);

const RANKS = 10_000;
/** A rank in a distribution; all ranks are equally likely. */
const rank = fc.noBias(fc.integer({ min: 0, max: RANKS })).map((place) => place / RANKS);

const distributed = (quantiles: Quantiles): fc.Arbitrary<number> => rank.map((share) => valueAt(quantiles, share));

/** True in this share of the cases. */
const inShare = (share: number): fc.Arbitrary<boolean> => rank.map((place) => place < share);

const { calls: CALL_SHARES, steps: STEP_SHARES } = RECORDED_SHARES;
/** Twice the recorded share (3 of 100): more errors test more. */
const FAILED_SHARE = 2 * CALL_SHARES.failed;

/** Twice the recorded share (2 of 100) of steps with parallel calls. */
const PARALLEL_SHARE = 2 * STEP_SHARES.withParallelCalls;

const toolName = rank.map((place) => {
  if (place < CALL_SHARES.bash) return 'bash';
  if (place < CALL_SHARES.bash + CALL_SHARES.edit) return 'edit';
  return place < 1 - CALL_SHARES.write ? 'read' : 'write';
});

const call: fc.Arbitrary<ToolPart> = fc
  .record({
    toolName,
    file: fc.integer({ min: 0, max: 11 }),
    inputChars: distributed(RECORDED_LENGTHS.toolInput),
    outputChars: distributed(RECORDED_LENGTHS.toolOutput),
    errorChars: distributed(RECORDED_LENGTHS.error),
    failed: inShare(FAILED_SHARE),
    extra: fc.option(json, { freq: 12, nil: undefined }),
    id: fc.integer({ min: 0, max: 30 }),
  })
  .map(({ toolName, file, inputChars, outputChars, errorChars, failed, extra, id }): ToolPart => {
    const fixed = inputOf(toolName, `src/part-${file}.ts`, id, inputChars);
    return {
      type: 'tool',
      toolCallId: `call_${id}`,
      toolName,
      input: extra === undefined ? fixed : { ...fixed, extra },
      state: failed ? 'error' : 'completed',
      output: failed
        ? { type: 'error-text', value: `failed: ${proseOf(id, errorChars)}` }
        : { type: 'text', value: proseOf(id + file, outputChars) },
    };
  });

/** `chars` is the length of the whole input as JSON. */
function inputOf(toolName: string, path: string, id: number, chars: number): { [key: string]: Json } {
  if (toolName === 'bash') return { command: `grep -n x${id} . # ${proseOf(id, chars - 34)}` };
  if (toolName === 'read') return { path };
  return { path, content: proseOf(id, chars - 40) };
}

type Draft = Readonly<{ role: 'user' | 'assistant'; parts: Part[] }>;

const userMessage: fc.Arbitrary<Draft> = fc
  .record({ seed: fc.integer({ min: 0, max: 1_000_000 }), chars: distributed(RECORDED_LENGTHS.user) })
  .map(({ seed, chars }) => ({ role: 'user', parts: [textOf(`Request ${seed}: ${proseOf(seed, chars)}`)] }));

const step: fc.Arbitrary<Draft> = fc
  .record({
    first: call,
    others: inShare(PARALLEL_SHARE).chain((isParallel) =>
      fc.array(call, isParallel ? { minLength: 1, maxLength: 3, size: 'max' } : { maxLength: 0 }),
    ),
    chars: distributed(RECORDED_LENGTHS.text),
    speaks: inShare(STEP_SHARES.withText),
    reasoningChars: distributed(RECORDED_LENGTHS.reasoning),
    reasons: inShare(STEP_SHARES.withReasoning),
  })
  .map(({ first, others, chars, speaks, reasoningChars, reasons }) => ({
    role: 'assistant',
    parts: [
      ...(reasons ? [signedReasoning(proseOf(chars, reasoningChars))] : []),
      ...(speaks ? [textOf(proseOf(chars, chars))] : []),
      first,
      ...others,
    ],
  }));

const answer: fc.Arbitrary<Draft> = distributed(RECORDED_LENGTHS.text).map((chars) => ({
  role: 'assistant',
  parts: [textOf(proseOf(chars, chars))],
}));

/** A turn: a user message, its steps, and usually a last one with an answer. */
const turn: fc.Arbitrary<Draft[]> = fc
  .tuple(inShare(RECORDED_SHARES.answeredTurns), distributed(RECORDED_STEPS_PER_TURN))
  .chain(([isAnswered, count]) => {
    const length = isAnswered ? count - 1 : count;
    return fc.record({
      said: userMessage,
      more: inShare(RECORDED_SHARES.usersInARow).chain((isMore) =>
        fc.array(userMessage, { minLength: isMore ? 1 : 0, maxLength: isMore ? 1 : 0 }),
      ),
      steps: fc.array(step, { minLength: length, maxLength: length, size: 'max' }),
      end: fc.array(answer, { minLength: isAnswered ? 1 : 0, maxLength: isAnswered ? 1 : 0 }),
    });
  })
  .map(({ said, more, steps, end }) => [said, ...more, ...steps, ...end]);

/**
 * Conversations with the statistics of the recorded ones: turns of one step or dozens, file tools, few errors and
 * parallel batches, mostly short texts. They end after an answer or in the middle of the work.
 */
export const conversation: fc.Arbitrary<ViewMessage[]> = fc
  .array(turn, { minLength: 2, maxLength: 10, size: 'max' })
  .map((turns) => numbered(turns.flat(), 1));

/** A conversation followed by another one. */
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
