import { describe, expect, it } from 'vitest';
import { importedTranscript } from '../../src/domain/model/imported-transcript.ts';
import { NOT_RUN } from '../../src/domain/run/settlement.ts';
import type { ConversationMessage } from '../../src/domain/transcript/conversation.ts';
import { partSchema } from '../../src/domain/transcript/message.ts';

const user = (text: string): ConversationMessage => ({ role: 'user', text });
const calling = (...ids: readonly string[]): ConversationMessage => ({
  role: 'assistant',
  text: '',
  calls: ids.map((id) => ({ id, name: 'read', args: '{"path":"a"}' })),
});
const result = (callId: string, text: string): ConversationMessage => ({ role: 'tool', callId, text });

/** The texts of all outputs, in the order of their calls. */
const outputsOf = (conversation: readonly ConversationMessage[]): unknown[] =>
  importedTranscript(conversation).flatMap(({ parts }) =>
    parts.flatMap((part) =>
      part.type === 'tool' && part.output?.type !== 'execution-denied' ? [part.output?.value] : [],
    ),
  );

describe('the transcript of a conversation that its client sends whole', () => {
  const file = { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,iVBORw==' } as const;

  it('has texts, files and calls with their results as parts that can be stored', () => {
    const transcript = importedTranscript([
      { role: 'user', text: 'Look', parts: [{ type: 'text', text: 'Look' }, file] },
      { role: 'assistant', text: 'I look.', calls: [{ id: 'a', name: 'read', args: '{"path":"a"}' }] },
      { role: 'tool', callId: 'a', text: 'seen', parts: [{ type: 'text', text: 'seen' }, file] },
      user('And?'),
    ]);
    expect(transcript).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'Look' }, file] },
      {
        role: 'assistant',
        parts: [
          { type: 'text', text: 'I look.' },
          {
            type: 'tool',
            toolCallId: 'a',
            toolName: 'read',
            input: { path: 'a' },
            state: 'completed',
            output: { type: 'content', value: [{ type: 'text', text: 'seen' }, file] },
          },
        ],
      },
      { role: 'user', parts: [{ type: 'text', text: 'And?' }] },
    ]);
    for (const part of transcript.flatMap(({ parts }) => parts))
      expect(partSchema.safeParse(part).error).toBeUndefined();
  });

  it('has no input for a call whose arguments are no JSON', () => {
    const calls = [{ id: 'a', name: 'read', args: '{"path":' }];
    expect(importedTranscript([{ role: 'assistant', text: '', calls }])).toMatchObject([{ parts: [{ input: {} }] }]);
  });

  it.each([
    ['by their ids', [calling('a', 'b'), result('b', '1'), result('a', '2')], ['2', '1']],
    [
      'by their order where ids repeat',
      [calling('a', 'b', 'a'), result('a', '1'), result('b', '2'), result('a', '3')],
      ['1', '2', '3'],
    ],
    ['no more often than there are calls', [calling('a'), result('a', '1'), result('a', '2'), result('x', '3')], ['1']],
    ['of the message before them alone', [result('a', '0'), calling('a'), user('on'), result('a', '1')], [NOT_RUN]],
    [
      'of the newest message where the next one repeats an id',
      [calling('a'), calling('a'), result('a', '1')],
      [NOT_RUN, '1'],
    ],
  ] as const)('gives results to calls %s', (_name, conversation, outputs) => {
    expect(outputsOf(conversation)).toEqual(outputs);
  });

  it('leaves no call open: a call without a result is an error and no work to do', () => {
    expect(importedTranscript([calling('a')])).toMatchObject([
      { parts: [{ type: 'tool', state: 'error', output: { type: 'error-text', value: NOT_RUN } }] },
    ]);
  });
});
