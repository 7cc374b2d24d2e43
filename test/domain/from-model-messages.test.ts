import { type ModelMessage, modelMessageSchema } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { BatonError } from '../../src/domain/errors.ts';
import {
  fromModelMessages,
  type ImportedMessages,
  type NewMessage,
} from '../../src/domain/model/from-model-messages.ts';
import { toModelMessages } from '../../src/domain/model/model-messages.ts';
import { NOT_RUN } from '../../src/domain/run/settlement.ts';
import type { Json, Part, ToolPart, ViewMessage } from '../../src/domain/transcript/message.ts';
import { json } from './view-arbitrary.ts';

const MODEL = 'openai/gpt-5';

const asView = (messages: readonly NewMessage[]): ViewMessage[] =>
  messages.map((message, index) => ({ id: `m${index}`, seq: index + 1, model: MODEL, ...message }));

const words = fc.string({ minLength: 1, maxLength: 12 }).filter((text) => text.trim() !== '');
const options = fc.constantFrom({}, { providerMetadata: { openai: { itemId: 'msg_1' } } });
const object: fc.Arbitrary<Json> = fc.dictionary(fc.constantFrom('path', 'limit'), json);

const settled = fc.oneof(
  words.map((value) => ({ state: 'completed' as const, output: { type: 'text' as const, value } })),
  object.map((value) => ({ state: 'completed' as const, output: { type: 'json' as const, value } })),
  words.map((value) => ({ state: 'error' as const, output: { type: 'error-text' as const, value } })),
  words.map((reason) => ({ state: 'denied' as const, output: { type: 'execution-denied' as const, reason } })),
);
const texts = fc.array(
  fc.record({ text: words, options }).map(({ text, options }): Part => ({ type: 'text', text, ...options })),
  { minLength: 1, maxLength: 3 },
);
const calls = fc.array(
  fc.record({ toolName: fc.constantFrom('read', 'bash'), input: object, settled, options }).map(
    ({ settled, options, ...call }): Omit<ToolPart, 'toolCallId'> => ({
      type: 'tool',
      ...call,
      ...settled,
      ...options,
    }),
  ),
  { minLength: 1, maxLength: 3 },
);
const thought = words.map(
  (text): Part => ({
    type: 'reasoning',
    text,
    providerMetadata: { openai: { itemId: 'rs_1', reasoningEncryptedContent: 'gA' } },
  }),
);

/** Conversations without anything that the model is not shown: what is imported must be what was exported. */
const conversation: fc.Arbitrary<NewMessage[]> = fc
  .array(
    fc.record({
      question: texts,
      steps: fc.array(fc.record({ thought, texts, calls }), { maxLength: 3 }),
      last: texts,
    }),
    {
      minLength: 1,
      maxLength: 3,
    },
  )
  .map((turns) =>
    turns.flatMap(({ question, steps, last }, turn): NewMessage[] => [
      { role: 'user', parts: question },
      ...steps.map(
        ({ thought, texts, calls }, step): NewMessage => ({
          role: 'assistant',
          parts: [
            thought,
            ...texts,
            ...calls.map((call, index) => ({ ...call, toolCallId: `c${turn}${step}${index}` })),
          ],
        }),
      ),
      { role: 'assistant', parts: last },
    ]),
  )
  .map((messages) => [...messages, { role: 'user' as const, parts: [{ type: 'text' as const, text: 'go on' }] }]);

describe('an imported conversation', () => {
  it('is the transcript that was exported', () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        const imported = fromModelMessages(toModelMessages(asView(messages), { model: MODEL }));
        expect(imported).toEqual({ messages, droppedResults: 0, droppedParts: 0 } satisfies ImportedMessages);
      }),
    );
  });

  it('is shown to the model as the messages it came from', () => {
    fc.assert(
      fc.property(conversation, (conversation) => {
        const messages: ModelMessage[] = toModelMessages(asView(conversation), { model: MODEL });
        const imported = fromModelMessages(z.array(modelMessageSchema).parse(messages)).messages;
        expect(toModelMessages(asView(imported), { model: MODEL })).toEqual(messages);
      }),
    );
  });

  it.each([
    ['by their ids', ['a', 'b'], ['b', 'a'], ['to a: 1', 'to b: 0'], 0],
    ['by their order where ids repeat', ['a', 'b', 'a'], ['a', 'b', 'a'], ['to a: 0', 'to b: 1', 'to a: 2'], 0],
    ['no more often than there are calls', ['a'], ['a', 'a', 'x'], ['to a: 0'], 2],
    ['and leaves a call without one closed', ['a', 'b'], ['b'], [NOT_RUN, 'to b: 0'], 0],
  ])('gives results to calls %s', (_name, called, answered, outputs, droppedResults) => {
    const imported = fromModelMessages([
      {
        role: 'assistant',
        content: called.map((id) => ({ type: 'tool-call', toolCallId: id, toolName: 'f', input: {} })),
      },
      ...answered.map((id, at) => ({
        role: 'tool',
        content: [
          { type: 'tool-result', toolCallId: id, toolName: 'f', output: { type: 'text', value: `to ${id}: ${at}` } },
        ],
      })),
      // An earlier batch is closed.
      { role: 'user', content: 'hi' },
      {
        role: 'tool',
        content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'f', output: { type: 'text', value: 'late' } }],
      },
    ]);
    const [calls] = imported.messages;
    expect(calls?.parts).toMatchObject(outputs.map((value) => ({ output: { value } })));
    expect(imported.droppedResults).toBe(droppedResults + 1);
  });

  it('takes text in the place of parts', () => {
    expect(
      fromModelMessages([
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'hello' },
      ] satisfies ModelMessage[]).messages,
    ).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
      { role: 'assistant', parts: [{ type: 'text', text: 'hello' }] },
    ]);
  });

  it('takes files and images in every form of the SDK, and counts what only one provider can read', () => {
    const bytes = new Uint8Array([137, 80, 78, 71]);
    const messages: ModelMessage[] = [
      {
        role: 'user',
        content: [
          { type: 'file', mediaType: 'image/png', data: bytes, filename: 'a.png' },
          { type: 'file', mediaType: 'image/png', data: { type: 'data', data: bytes.buffer } },
          { type: 'file', mediaType: 'image/png', data: 'iVBORw==' },
          { type: 'file', mediaType: 'image/png', data: new URL('https://example.com/a.png') },
          { type: 'file', mediaType: 'image/png', data: { type: 'url', url: new URL('https://example.com/b.png') } },
          { type: 'image', image: 'data:image/png;base64,iVBORw==' },
          { type: 'file', mediaType: 'image/png', data: { type: 'reference', reference: { openai: 'file-1' } } },
        ],
      },
    ];
    const imported = fromModelMessages(messages);
    expect(imported.messages[0]?.parts.map((part) => (part.type === 'file' ? part.url : part.type))).toEqual([
      'data:image/png;base64,iVBORw==',
      'data:image/png;base64,iVBORw==',
      'data:image/png;base64,iVBORw==',
      'https://example.com/a.png',
      'https://example.com/b.png',
      'data:image/png;base64,iVBORw==',
    ]);
    expect(imported.droppedParts).toBe(1);
  });
});

describe('imported tool results', () => {
  const call = (toolCallId: string) => ({ type: 'tool-call' as const, toolCallId, toolName: 'read', input: {} });
  const result = (toolCallId: string, value: string) => ({
    type: 'tool-result' as const,
    toolCallId,
    toolName: 'read',
    output: { type: 'text' as const, value },
  });
  const outputs = ({ messages }: ImportedMessages) =>
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) =>
        part.type === 'tool'
          ? [part.output?.type === 'json' ? part.output : (part.output as { value: string }).value]
          : [],
      ),
    );

  it('go to their call by position where ids repeat, and only to the batch before them', () => {
    const imported = fromModelMessages([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: [call('a'), call('b'), call('a')] },
      { role: 'tool', content: [result('a', '1'), result('b', '2')] },
      { role: 'tool', content: [result('a', '3')] },
      { role: 'assistant', content: [call('a')] },
      { role: 'tool', content: [result('a', '4')] },
    ] satisfies ModelMessage[]);
    expect(outputs(imported)).toEqual(['1', '2', '3', '4']);
    expect(imported.droppedResults).toBe(0);
  });

  it('are dropped and counted when they answer nothing', () => {
    const imported = fromModelMessages([
      { role: 'tool', content: [result('a', 'before any call')] },
      { role: 'user', content: 'go' },
      { role: 'assistant', content: [call('a'), call('late')] },
      { role: 'tool', content: [result('a', '1'), result('a', 'a second time'), result('b', 'of nobody')] },
      { role: 'user', content: 'on' },
      { role: 'tool', content: [result('late', 'after another message')] },
    ] satisfies ModelMessage[]);
    expect(outputs(imported)).toEqual(['1', NOT_RUN]);
    expect(imported.droppedResults).toBe(4);
  });

  it('leave no call open: what nobody answered is an error, never work to do', () => {
    const imported = fromModelMessages([{ role: 'assistant', content: [call('a')] }] satisfies ModelMessage[]);
    expect(imported.messages[0]?.parts).toEqual([
      {
        type: 'tool',
        toolCallId: 'a',
        toolName: 'read',
        input: {},
        state: 'error',
        output: { type: 'error-text', value: NOT_RUN },
      },
    ]);
  });

  it('keep what Baton can hold of every kind of output', () => {
    const withOutput = (output: unknown) => ({ type: 'tool-result', toolCallId: 'a', toolName: 'read', output });
    const imported = (output: unknown) =>
      fromModelMessages([
        { role: 'assistant', content: [call('a')] },
        { role: 'tool', content: [withOutput(output)] },
      ]);
    expect(imported({ type: 'error-json', value: { code: 1 } }).messages[0]?.parts).toMatchObject([
      { state: 'error', output: { type: 'error-text', value: '{"code":1}' } },
    ]);
    const content = imported({
      type: 'content',
      value: [
        { type: 'text', text: 'seen' },
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'iVBORw==' } },
        { type: 'custom' },
      ],
    });
    const file = { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,iVBORw==' };
    expect(content.messages[0]?.parts).toMatchObject([
      { state: 'completed', output: { type: 'content', value: [{ type: 'text', text: 'seen' }, file] } },
    ]);
    expect(content.droppedParts).toBe(1);
    const texts = imported({ type: 'content', value: [{ type: 'text', text: 'seen' }, { type: 'custom' }] });
    expect(texts.messages[0]?.parts).toMatchObject([{ output: { type: 'text', value: 'seen' } }]);
  });

  it('of the provider stay with the call in the assistant message', () => {
    const imported = fromModelMessages([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: [{ ...call('ws'), providerExecuted: true }, result('ws', 'found')] },
    ] satisfies ModelMessage[]);
    expect(imported.messages[1]?.parts).toMatchObject([
      { type: 'tool', providerExecuted: true, state: 'completed', output: { type: 'text', value: 'found' } },
    ]);
  });
});

describe('an import that is refused', () => {
  const refusal = (messages: unknown[]): BatonError => {
    try {
      fromModelMessages(messages);
    } catch (error) {
      if (error instanceof BatonError) return error;
      throw error;
    }
    throw new Error('It was not refused.');
  };

  it('names the system message', () => {
    const error = refusal([
      { role: 'user', content: 'go' },
      { role: 'system', content: 'be nice' },
    ]);
    expect(error.code).toBe('invalid_request');
    expect(error.message).toContain('messages[1]: system messages');
  });

  it.each([
    ['messages[0]', null],
    ['messages[0].role', { role: 'robot', content: '' }],
    ['messages[0].content', { role: 'user', content: 7 }],
    ['messages[0].content', { role: 'tool', content: [{ type: 'tool-result' }] }],
  ])('names where it is malformed: %s', (place, message) => {
    const error = refusal([message]);
    expect(error.code).toBe('invalid_request');
    expect(error.message).toContain(place);
    expect(error.cause).toBeDefined();
  });

  it('is refused with a typed error for values that JSON has no form for', () => {
    const part = { type: 'tool-call', toolCallId: 'a', toolName: 'read', input: { size: 1n } };
    expect(refusal([{ role: 'assistant', content: [part] }]).code).toBe('invalid_request');
  });
});
