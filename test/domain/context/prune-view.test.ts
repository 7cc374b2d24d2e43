import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { estimateMessage, totalOf } from '../../../src/domain/context/meter/message-tokens.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import { shownParts } from '../../../src/domain/model/shown-parts.ts';
import type { PartMarks, ToolPart, ViewMessage, ViewPart } from '../../../src/domain/transcript/message.ts';
import { outputRef, parseRef } from '../../../src/domain/transcript/refs.ts';
import { anyModel, anyView } from '../view-arbitrary.ts';
import { assistantOf, callOf, MODEL, textOf, userOf } from './measure-view.ts';

const marked = (part: ViewPart, marks: PartMarks): ViewPart => ({ ...part, marks });

/** A marked call as the model is shown it: its input and its result. */
function shownCall(part: ToolPart, marks: PartMarks) {
  const view: ViewMessage[] = [
    userOf(1, textOf('go')),
    assistantOf(12, textOf('I look.'), textOf('Now.'), marked(part, marks)),
  ];
  const content = toModelMessages(view, { model: MODEL }).flatMap((message) => [...message.content]);
  return {
    input: content.flatMap((shown) => (shown.type === 'tool-call' ? [shown.input] : []))[0],
    output: content.flatMap((shown) => (shown.type === 'tool-result' ? [shown.output] : []))[0],
  };
}

const PLACEHOLDER = '[Old tool result content cleared; read_tool_output id: out_12_2]';
const long = 'x'.repeat(3_000);

describe('a pruned call', () => {
  it('shows a placeholder with the id by which the output can be read again', () => {
    expect(shownCall(callOf({ path: 'a.ts' }, long), { pruned: true })).toEqual({
      input: { path: 'a.ts' },
      output: { type: 'text', value: PLACEHOLDER },
    });
  });

  it('shows it too where the output was not even read, whatever form it had', () => {
    const { output: _, ...unread } = callOf({ path: 'a.ts' }, long);
    expect(shownCall(unread, { pruned: true }).output).toEqual({ type: 'text', value: PLACEHOLDER });
    const json = callOf({}, '', { output: { type: 'json', value: { rows: [long] } } });
    expect(shownCall(json, { pruned: true }).output).toEqual({ type: 'text', value: PLACEHOLDER });
  });

  it('keeps an error an error and a denial a denial', () => {
    const failed = callOf({}, '', { state: 'error', output: { type: 'error-text', value: long } });
    expect(shownCall(failed, { pruned: true }).output).toEqual({ type: 'error-text', value: PLACEHOLDER });
    const denied = callOf({}, '', { state: 'denied', output: { type: 'execution-denied', reason: long } });
    expect(shownCall(denied, { pruned: true }).output).toEqual({ type: 'execution-denied', reason: PLACEHOLDER });
  });

  it('shows no long text of its input, nested or not, and every short one', () => {
    const input = { path: 'src/a.ts', content: long, edits: [{ old: 'y'.repeat(501), new: 'z'.repeat(500) }], n: 3 };
    expect(shownCall(callOf(input, 'ok'), { pruned: true }).input).toEqual({
      path: 'src/a.ts',
      content: '[Old tool input cleared]',
      edits: [{ old: '[Old tool input cleared]', new: 'z'.repeat(500) }],
      n: 3,
    });
    expect(shownCall(callOf(long, 'ok'), { pruned: true }).input).toEqual({
      rawInvalidInput: '[Old tool input cleared]',
    });
  });

  it('that has no outcome yet is shown as it is: there is nothing to clear', () => {
    for (const state of ['pending', 'awaiting_approval', 'running', 'unknown'] as const) {
      const part = callOf({ content: long }, '', { state });
      expect(shownCall(part, { pruned: true })).toEqual(shownCall(part, {}));
    }
  });
});

describe('an output with a limit', () => {
  it('keeps head and tail within it and says how to read the rest', () => {
    const { output } = shownCall(callOf({}, `HEAD${long}TAIL`), { viewLimitChars: 400 });
    if (output?.type !== 'text') throw new Error('not a text');
    expect(output.value).toMatch(/^HEADx+\n… \[\d+ of 3008 characters cut out: .*out_12_2\] …\nx+TAIL$/);
    expect(output.value.length).toBeLessThanOrEqual(400);
  });

  it('shows JSON as the head and tail of its text', () => {
    const json = callOf({}, '', { output: { type: 'json', value: { rows: [long] } } });
    const { output } = shownCall(json, { viewLimitChars: 400 });
    expect(output).toMatchObject({ type: 'text', value: expect.stringMatching(/^\{"rows":\["xxx/) });
  });

  it('keeps an error an error', () => {
    const failed = callOf({}, '', { state: 'error', output: { type: 'error-text', value: long } });
    expect(shownCall(failed, { viewLimitChars: 400 }).output).toMatchObject({ type: 'error-text' });
  });

  it('holds for the reason of a denial, which stays one', () => {
    const denied = callOf({}, '', { state: 'denied', output: { type: 'execution-denied', reason: long } });
    const { output } = shownCall(denied, { viewLimitChars: 400 });
    if (output?.type !== 'execution-denied') throw new Error('not a denial');
    expect(output.reason).toMatch(/^x+\n… \[\d+ of 3000 characters cut out: .*out_12_2\] …\nx+$/);
    expect(output.reason?.length).toBeLessThanOrEqual(400);
  });

  it('is whole where it fits, and where the notice would be longer than what it replaces', () => {
    expect(shownCall(callOf({}, 'x'.repeat(400)), { viewLimitChars: 400 }).output).toEqual({
      type: 'text',
      value: 'x'.repeat(400),
    });
    expect(shownCall(callOf({}, 'x'.repeat(40)), { viewLimitChars: 1 }).output).toEqual({
      type: 'text',
      value: 'x'.repeat(40),
    });
  });
});

describe('a stripped file', () => {
  const url = 'data:image/png;base64,iVBORw0KGgo=';
  const file = (filename?: string): ViewPart =>
    marked(
      { type: 'file', mediaType: 'image/png', url, ...(filename === undefined ? {} : { filename }) },
      { mediaStripped: true },
    );

  it('is named by a text of the user message it was in', () => {
    expect(toModelMessages([userOf(1, textOf('see'), file('a.png'), file())], { model: MODEL })).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'see' },
          {
            type: 'text',
            text: '[Attached image/png: a.png, no longer shown; read_tool_output shows it again, id file_1_1]',
          },
          {
            type: 'text',
            text: '[Attached image/png: unnamed, no longer shown; read_tool_output shows it again, id file_1_2]',
          },
        ],
      },
    ]);
  });

  it('of the assistant is not sent, and no text in its place either', () => {
    const messages = toModelMessages([userOf(1, textOf('go')), assistantOf(2, file('a.png'), textOf('done'))], {
      model: MODEL,
    });
    expect(messages[1]?.content).toEqual([{ type: 'text', text: 'done' }]);
  });

  it('no longer counts as an image', () => {
    const tokens = estimateMessage(userOf(1, file('a.png')), (text) => text.length);
    expect(tokens.files).toBe(0);
    expect(tokens.user).toBeGreaterThan(40);
  });
});

describe('marks of any kind', () => {
  /** The message as the model is shown it, in the form of a recorded message without marks. */
  const asShown = (message: ViewMessage): ViewMessage => ({ ...message, parts: shownParts(message) });

  it('change what the model is shown exactly as they change the estimate of it', () => {
    fc.assert(
      fc.property(anyView, anyModel, (view, model) => {
        const shown = view.map(asShown);
        expect(toModelMessages(view, { model })).toEqual(toModelMessages(shown, { model }));
        const tokensOf = (messages: readonly ViewMessage[]) =>
          messages.map((message) => estimateMessage(message, (text) => text.length, { model }));
        expect(tokensOf(view)).toEqual(tokensOf(shown));
      }),
    );
  });

  it('leave every part its place, and a part without marks as it is', () => {
    fc.assert(
      fc.property(anyView, (view) => {
        for (const message of view) {
          const shown = shownParts(message);
          expect(shown).toHaveLength(message.parts.length);
          message.parts.forEach((part, index) => {
            if (part.marks === undefined) expect(shown[index]).toEqual(part);
            if (part.type === 'tool') expect(shown[index]?.type).toBe('tool');
          });
        }
      }),
    );
  });

  it('are idempotent: what is shown of a shown message is the same', () => {
    fc.assert(
      fc.property(anyView, (view) => {
        for (const message of view) {
          const again = {
            ...message,
            parts: shownParts(message).map((part, index) => ({ ...part, ...marksOf(message, index) })),
          };
          if (message.parts.every((part) => part.marks?.viewLimitChars === undefined)) {
            expect(shownParts(again)).toEqual(shownParts(message));
          }
        }
      }),
    );
  });

  it('with a limit alone never make a message longer', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 500 }), fc.integer({ min: 1, max: 600 }), (value, viewLimitChars) => {
        const plain = assistantOf(12, callOf({}, value));
        const limited = assistantOf(12, marked(callOf({}, value), { viewLimitChars }));
        const tokensOf = (message: ViewMessage) => totalOf(estimateMessage(message, (text) => text.length));
        expect(tokensOf(limited)).toBeLessThanOrEqual(tokensOf(plain));
      }),
    );
  });
});

const marksOf = (message: ViewMessage, index: number): { marks?: PartMarks } => {
  const marks = message.parts[index]?.marks;
  return marks === undefined ? {} : { marks };
};

describe('the id of an output', () => {
  it('is read back as the place it was made from', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e12 }), fc.nat(100_000), (messageSeq, partIndex) => {
        expect(parseRef(outputRef(messageSeq, partIndex))).toEqual({ kind: 'output', messageSeq, partIndex });
        expect(parseRef(` ${outputRef(messageSeq, partIndex)}\n`)).toEqual({ kind: 'output', messageSeq, partIndex });
      }),
    );
  });

  it.each(['', 'out_', 'out_0_1', 'out_01_1', 'out_1', 'out_1_-1', 'out_1_1_1', 'xout_1_1', 'out_1e3_1', 'call_1'])(
    'is not %j',
    (ref) => expect(parseRef(ref)).toBeNull(),
  );
});
