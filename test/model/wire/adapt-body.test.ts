import { describe, expect, it } from 'vitest';
import { adapt } from '../../../src/domain/model/remedies/adaptation.ts';
import { adaptBody, UNSIGNED } from '../../../src/model/wire/adapt-body.ts';

const call = (id: string) => ({
  id,
  type: 'function',
  function: { name: 'look', arguments: '{"at":12345678901234567890}' },
});
const chat = {
  model: 'm',
  temperature: 0,
  max_tokens: 5,
  messages: [
    { role: 'user', content: 'Go.' },
    { role: 'assistant', content: null, tool_calls: [call('call_1'), call('abcdefgh1')], reasoning: 'Hm.' },
    { role: 'tool', tool_call_id: 'call_1', content: '{"call_id":"call_1"}' },
    { role: 'tool', tool_call_id: 'abcdefgh1', content: 'seen' },
    { role: 'user', content: 'And?' },
  ],
  tools: [
    { type: 'function', function: { name: 'look', strict: true, parameters: { anyOf: [{ properties: { at: {} } }] } } },
  ],
  tool_choice: 'auto',
};

type Message = Record<string, unknown> & { role: string; tool_calls?: { id: string }[] };
const changed = (...changes: Parameters<typeof adapt>[]) =>
  JSON.parse(
    adaptBody(
      JSON.stringify(chat),
      'openai-chat',
      changes.map((change) => adapt(...change)),
    ),
  ) as typeof chat & {
    messages: Message[];
    max_completion_tokens?: number;
  };

describe('the body of a request', () => {
  it('stays byte for byte without changes', () => {
    const text = '{"b": 1,  "a": 12345678901234567890}';
    expect(adaptBody(text, 'openai-chat', [])).toBe(text);
  });

  it('has ids of nine letters, the same in a call and its result, and other texts stay', () => {
    const { messages } = changed(['nine_letter_ids']);
    const ids = messages[1]?.tool_calls?.map(({ id }) => id) ?? [];
    expect(ids).toEqual([expect.stringMatching(/^[a-zA-Z0-9]{9}$/), 'abcdefgh1']);
    expect([messages[2]?.['tool_call_id'], messages[3]?.['tool_call_id']]).toEqual(ids);
    expect(messages[2]?.['content']).toBe('{"call_id":"call_1"}');
  });

  it('has the thoughts under the field that is wanted, and a dot where there are none', () => {
    expect(changed(['return_thoughts', 'reasoning_content']).messages[1]?.['reasoning_content']).toBe('Hm.');
    expect(
      changed(['omit_thoughts'], ['return_thoughts', 'reasoning_content']).messages[1]?.['reasoning_content'],
    ).toBe('.');
    expect(changed(['omit_thoughts']).messages[1]).not.toHaveProperty('reasoning');
  });

  it('has texts in place of no content and of lists of texts', () => {
    const { messages } = changed(['plain_content']);
    expect(messages.map(({ content }) => content)).toEqual(['Go.', '', '{"call_id":"call_1"}', 'seen', 'And?']);
    const list = [{ role: 'user', content: ['a', 'b'].map((text) => ({ type: 'text', text })) }];
    const files = [{ role: 'user', content: [{ type: 'image_url' }] }];
    const adapted = (given: object[]) =>
      JSON.parse(adaptBody(JSON.stringify({ messages: given }), 'openai-chat', [adapt('plain_content')])).messages;
    expect(adapted(list)).toEqual([{ role: 'user', content: 'a\n\nb' }]);
    expect(adapted(files)).toEqual(files);
  });

  it('has no calls that the provider ran itself', () => {
    const input = ['message', 'web_search_call', 'function_call', 'custom_tool_call'].map((type) => ({ type }));
    const body = adaptBody(JSON.stringify({ input }), 'openai-responses', [adapt('omit_provider_calls')]);
    expect(JSON.parse(body).input).toEqual(input.filter(({ type }) => type !== 'web_search_call'));
  });

  it('has a message between a result and the user, dummy signatures, and another name for its limit', () => {
    expect(changed(['bridge_roles']).messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
      'user',
    ]);
    expect(JSON.stringify(changed(['dummy_signatures']))).toContain('skip_thought_signature_validator');
    expect(changed(['completion_tokens'])).toMatchObject({ max_completion_tokens: 5 });
    expect(changed(['completion_tokens'])).not.toHaveProperty('max_tokens');
    expect(changed(['without_parameter', 'temperature'])).not.toHaveProperty('temperature');
  });

  it('has a tool with a simple schema, without strictness, or no tool and then no choice', () => {
    expect(changed(['simple_schema', 'look']).tools[0]?.function.parameters).toEqual({
      type: 'object',
      properties: { at: {} },
    });
    expect(changed(['without_strict']).tools[0]?.function).not.toHaveProperty('strict');
    const without = changed(['omit_tool', 'look']);
    expect(without).not.toHaveProperty('tools');
    expect(without).not.toHaveProperty('tool_choice');
  });

  it('keeps the digits of long numbers when it is changed', () => {
    const text = '{"temperature":1,"messages":[{"role":"user","content":12345678901234567890}]}';
    expect(adaptBody(text, 'openai-chat', [adapt('without_parameter', 'temperature')])).toContain(
      '12345678901234567890',
    );
  });

  it('has thinking blocks as they came: without a signature, or with an empty one', () => {
    const body = {
      messages: [
        {
          content: [
            { type: 'thinking', thinking: 'A', signature: UNSIGNED.absent },
            { type: 'thinking', thinking: 'B', signature: UNSIGNED.empty },
          ],
        },
      ],
    };
    const sent = JSON.parse(adaptBody(JSON.stringify(body), 'anthropic-messages', []));
    expect(sent.messages[0].content).toEqual([
      { type: 'thinking', thinking: 'A' },
      { type: 'thinking', thinking: 'B', signature: '' },
    ]);
  });
});
