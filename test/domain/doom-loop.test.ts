import { describe, expect, it } from 'vitest';
import { CUT_OFF_STEPS, DOOM_LOOP_STEPS, isCutOffLoop, isDoomLoop } from '../../src/domain/run/doom-loop.ts';
import { NOT_RUN } from '../../src/domain/run/settlement.ts';
import type { Json, ViewMessage } from '../../src/domain/transcript/message.ts';

let seq = 0;
const step = (output: string, input: Json = { path: 'a.ts' }): ViewMessage => ({
  id: `m${++seq}`,
  seq,
  role: 'assistant',
  model: 'test/model',
  parts: [
    { type: 'step-start' },
    { type: 'text', text: `Attempt ${seq}` },
    {
      type: 'tool',
      toolCallId: `call_${seq}`,
      toolName: 'read_file',
      input,
      state: 'completed',
      output: { type: 'text', value: output },
    },
  ],
});
const asked: ViewMessage = { id: 'u', seq: 0, role: 'user', model: null, parts: [{ type: 'text', text: 'Go on' }] };
const times = (count: number, output = 'same'): ViewMessage[] => Array.from({ length: count }, () => step(output));

const inputOf = (message: ViewMessage, input: Json): ViewMessage => ({
  ...message,
  parts: message.parts.map((part) => (part.type === 'tool' ? { ...part, input } : part)),
});

describe('a loop that a model does not find out of', () => {
  it('is the same calls with the same outcomes, whatever is said beside them', () => {
    expect(isDoomLoop(times(DOOM_LOOP_STEPS - 1))).toBe(false);
    expect(isDoomLoop(times(DOOM_LOOP_STEPS))).toBe(true);
    expect(isDoomLoop([asked, ...times(2, 'other'), ...times(DOOM_LOOP_STEPS)])).toBe(true);
  });

  it('is seen however the store ordered the keys, and whatever number a cut output has', () => {
    const ordered = [
      ...times(DOOM_LOOP_STEPS - 1, 'head [cut: out_12_1] tail').map((message) =>
        inputOf(message, { path: 'a', limit: 5 }),
      ),
      inputOf(step('head [cut: out_20_1] tail'), { limit: 5, path: 'a' }),
    ];
    expect(isDoomLoop(ordered)).toBe(true);
  });

  it('is none where the outcome changes: somebody waits for something', () => {
    expect(isDoomLoop([...times(DOOM_LOOP_STEPS - 1), step('ready')])).toBe(false);
    expect(isDoomLoop([step('starting'), ...times(DOOM_LOOP_STEPS - 1)])).toBe(false);
  });

  it('is none where the input changes, where the user spoke, and without calls', () => {
    expect(isDoomLoop([...times(DOOM_LOOP_STEPS - 1), step('same', { path: 'b.ts' })])).toBe(false);
    expect(isDoomLoop([...times(2), asked, ...times(DOOM_LOOP_STEPS - 2)])).toBe(false);
    const silent = times(DOOM_LOOP_STEPS).map((message) => ({ ...message, parts: [] }));
    expect(isDoomLoop(silent)).toBe(false);
  });
});

describe('answers that are cut off within their calls', () => {
  const cut = (): ViewMessage => {
    const message = step('', { part: ++seq });
    return {
      ...message,
      parts: message.parts.map((part) =>
        part.type === 'tool' ? { ...part, state: 'error', output: { type: 'error-text', value: NOT_RUN } } : part,
      ),
    };
  };
  const cuts = (count: number): ViewMessage[] => Array.from({ length: count }, cut);

  it('are a loop, whatever the calls were to be', () => {
    expect(isCutOffLoop(cuts(CUT_OFF_STEPS - 1))).toBe(false);
    expect(isCutOffLoop([asked, ...cuts(CUT_OFF_STEPS)])).toBe(true);
  });

  it('are none with a whole call or a message between them', () => {
    expect(isCutOffLoop([cut(), step('seen'), cut()])).toBe(false);
    expect(isCutOffLoop([cut(), cut(), asked, cut()])).toBe(false);
  });
});
