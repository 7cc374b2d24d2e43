import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DONE, FINISH_WORDS } from '../../../src/domain/model/finish-words.ts';
import { toModelFailure } from '../../../src/model/model-error.ts';
import { type Kind, startAnsweringServer } from './answering-server.ts';

let server: Awaited<ReturnType<typeof startAnsweringServer>>;
beforeAll(async () => {
  server = await startAnsweringServer();
});
afterAll(() => server[Symbol.asyncDispose]());

const END = 'data: [DONE]\n\n';
const CHAT: readonly Kind[] = ['openai-compatible', 'openai-chat'];
const chunk = (delta: object, finish_reason: unknown = null) => ({ choices: [{ index: 0, delta, finish_reason }] });
const say = (content: unknown) => chunk({ role: 'assistant', content });
const usage = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 } };
const callChunk = (args: unknown, more: object = {}) =>
  chunk({
    tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: args }, ...more }],
  });
const WHOLE_CALL = callChunk('{"at":"here"}');

const CALLED = { calls: [{ id: 'c1', name: 'look', input: { at: 'here' } }], finishReason: 'tool-calls', error: null };
const said = (text: string, finishReason = 'stop') => ({ text, calls: [], finishReason, error: null });
const why = (heard: { error: unknown }) => toModelFailure(heard.error).error.message;

describe.each(CHAT)('chat completions over %s', (kind) => {
  it.each([...FINISH_WORDS.stop, ...FINISH_WORDS['tool-calls'], 'STOP', 'FinishReason.TOOL_CALLS', 'toolUse', 'quux'])(
    'run a whole call that ends with %s',
    async (word) => {
      const heard = await server.ask(kind, { frames: [WHOLE_CALL, chunk({}, word), usage, END] });
      expect(heard).toMatchObject(CALLED);
    },
  );

  it.each([
    ['EOS', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['model_length', 'length'],
    ['SAFETY', 'content-filter'],
    ['quux', 'other'],
  ])('end a text with %s as %s', async (word, reason) => {
    expect(await server.ask(kind, { frames: [say('Good.'), chunk({}, word), usage, END] })).toMatchObject(
      said('Good.', reason),
    );
  });

  it.each(FINISH_WORDS.broken)('are broken off by the word %s, which the reason names', async (word) => {
    const heard = await server.ask(kind, { frames: [say('Half'), chunk({}, word), usage, END] });
    expect(heard.finishReason).toBeNull();
    expect(why(heard)).toContain(word);
  });

  it.each([
    ['usage', [say('All done.'), usage, END], said('All done.')],
    ['an empty reason in every chunk', [chunk({ content: 'All done.' }, ''), chunk({}, ''), END], said('All done.')],
    ['nothing', [say('All done.'), END], said('All done.')],
    ['a whole call', [WHOLE_CALL, usage, END], CALLED],
  ])('without a reason are whole behind [DONE] and %s', async (_, frames, expected) => {
    expect(await server.ask(kind, { frames })).toMatchObject(expected);
  });

  it.each([
    ['half a sentence and an empty reason', [chunk({ content: 'The total is forty-tw' }, '')]],
    ['half a sentence', [say('The total is forty-tw')]],
    ['half a call before [DONE]', [callChunk('{"at":"he'), END]],
    ['half a call behind an unknown word', [callChunk('{"at":"he'), chunk({}, 'quux'), END]],
    ['no content before [DONE]', [chunk({ role: 'assistant' }), usage, END]],
    [
      'a piece that is no JSON',
      [say('Pay 1'), 'data: {"choices":[{"delta":{"con\n\n', say('00'), chunk({}, 'stop'), END],
    ],
    ['a number in place of a text', [say('Pay 1'), say(5), say('00'), chunk({}, 'stop'), END]],
    ['arguments that are a number', [callChunk(5), chunk({}, 'tool_calls'), END]],
    ['a call as text', [say('<tool_call>{"name":"look","arguments":{}}</tool_call>'), chunk({}, 'stop'), END]],
  ])('are broken with %s', async (_, frames) => {
    const heard = await server.ask(kind, { frames });
    expect(heard).toMatchObject({ finishReason: null, text: '' });
    expect(why(heard).length).toBeGreaterThan('The connection to the provider failed or its answer broke off.'.length);
  });

  it.each([
    ['an object', { error: { message: 'backend died', code: 502 } }],
    ['a text', { error: 'backend died' }],
    ['the form of Mistral', { object: 'error', message: 'backend died', type: 'x' }],
    [
      'beside choices',
      { choices: [{ delta: { content: '' }, finish_reason: 'error' }], error: { message: 'backend died' } },
    ],
  ])('are broken by an error in mid-stream: %s', async (_, error) => {
    const heard = await server.ask(kind, { frames: [say('Pay 1'), error, say('00'), chunk({}, 'stop'), END] });
    expect(heard.finishReason).toBeNull();
    expect(why(heard)).toContain('backend died');
  });

  it.each([
    [
      'a role of another kind',
      [chunk({ role: 'tool', content: 'All ' }), chunk({ role: 'bot', content: 'done.' }, 'stop')],
    ],
    [
      'ids and times of other types',
      [{ id: 7, created: 'now', model: 3, ...say('All ') }, chunk({ content: 'done.' }, 'stop')],
    ],
    [
      'usage of another form',
      [{ ...say('All done.'), usage: { prompt_tokens: '5', completion_tokens: null } }, chunk({}, 'stop')],
    ],
    ['a chunk without choices', [{ id: 'x' }, say('All done.'), chunk({}, 'stop')]],
    ['a message in place of a delta', [{ choices: [{ message: { content: 'All done.' }, finish_reason: 'stop' }] }]],
  ])('are read with %s', async (_, frames) => {
    expect(await server.ask(kind, { frames: [...frames, END] })).toMatchObject(said('All done.'));
  });

  it.each([
    ['as an object', callChunk({ at: 'here' })],
    ['with a number as its id', callChunk('{"at":"here"}', { id: 1 })],
    ['with its index as text', callChunk('{"at":"here"}', { index: '0' })],
    ['in the form of 2023', chunk({ function_call: { name: 'look', arguments: '{"at":"here"}' } })],
  ])('run a call %s', async (_, call) => {
    const heard = await server.ask(kind, { frames: [call, chunk({}, 'tool_calls'), END] });
    expect(heard).toMatchObject({
      calls: [{ name: 'look', input: { at: 'here' } }],
      finishReason: 'tool-calls',
      error: null,
    });
  });

  it('keep the digits of arguments that come as an object', async () => {
    const raw =
      '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":{"at":2512292042121000001}}}]}}]}';
    const inputs: string[] = [];
    const heard = await server.ask(kind, { frames: [`data: ${raw}\n\n`, chunk({}, 'stop'), END] });
    inputs.push(JSON.stringify(heard.calls));
    expect(heard.error).toBeNull();
    expect(inputs[0]).toContain('look');
  });

  it('are read where a whole answer comes in place of the stream', async () => {
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"here"}' } }],
    };
    const whole = {
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
      usage: usage.usage,
    };
    for (const type of ['application/json', 'text/event-stream', 'text/plain']) {
      expect(await server.ask(kind, { type, frames: [JSON.stringify(whole)] })).toMatchObject(CALLED);
    }
  });

  it('are broken where an error comes with status 200', async () => {
    const frames = [JSON.stringify([{ error: { code: 429, message: 'Slow down.', status: 'RESOURCE_EXHAUSTED' } }])];
    const heard = await server.ask(kind, { type: 'application/json', frames });
    expect(toModelFailure(heard.error)).toMatchObject({ class: 'rate_limited' });
    expect(why(heard)).toContain('Slow down.');
  });
});

const start = {
  type: 'message_start',
  message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 5, output_tokens: 1 } },
};
const block = (content_block: object, delta: object, index = 0) => [
  { type: 'content_block_start', index, content_block },
  { type: 'content_block_delta', index, delta },
  { type: 'content_block_stop', index },
];
const text = (value: unknown) => block({ type: 'text', text: '' }, { type: 'text_delta', text: value });
const use = block(
  { type: 'tool_use', id: 'c1', name: 'look', input: {} },
  { type: 'input_json_delta', partial_json: '{"at":"here"}' },
);
const end = (stop_reason: unknown) => [
  { type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 3 } },
  { type: 'message_stop' },
];

describe('messages of Anthropic’s protocol', () => {
  it.each([null, '', 'tool_calls', 'end_turn', 'quux'])('run a whole call that ends with %s', async (word) => {
    expect(await server.ask('anthropic', { frames: [start, ...use, ...end(word)] })).toMatchObject(CALLED);
  });

  it.each([
    ['a text that is a number', [start, ...text('Pay 1'), ...text(5), ...end('end_turn')]],
    ['a piece that is no JSON', [start, ...text('Pay 1'), 'data: {"type":\n\n', ...end('end_turn')]],
    [
      'an error',
      [
        start,
        ...text('Pay 1'),
        { type: 'error', error: { type: 'overloaded_error', message: 'busy' } },
        ...end('end_turn'),
      ],
    ],
    ['no end', [start, ...text('Pay 1')]],
    ['an end without its last event', [start, ...text('Pay 1'), ...end('end_turn').slice(0, 1)]],
    ['a block without an end', [start, ...use.slice(0, 2), ...end('quux')]],
  ])('are broken with %s', async (_, frames) => {
    expect((await server.ask('anthropic', { frames })).error).not.toBeNull();
  });

  it.each([
    ['unknown events', [start, { type: 'news' }, ...text('Fine.'), ...end('end_turn')]],
    [
      'counts that are missing',
      [
        { type: 'message_start', message: { id: 'm' } },
        ...text('Fine.'),
        { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
        { type: 'message_stop' },
      ],
    ],
    ['[DONE] at the end', [start, ...text('Fine.'), ...end('end_turn'), END]],
  ])('are read with %s', async (_, frames) => {
    expect(await server.ask('anthropic', { frames })).toMatchObject(said('Fine.'));
  });

  it('are read where a whole message comes in place of the stream', async () => {
    const content = [
      { type: 'text', text: 'Look.' },
      { type: 'tool_use', id: 'c1', name: 'look', input: { at: 'here' } },
    ];
    const whole = {
      type: 'message',
      role: 'assistant',
      content,
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 2 },
    };
    expect(await server.ask('anthropic', { type: 'application/json', frames: [JSON.stringify(whole)] })).toMatchObject({
      ...CALLED,
      text: 'Look.',
    });
  });
});

describe('responses of OpenAI’s protocol', () => {
  it('are broken by an error with status 200', async () => {
    const heard = await server.ask('openai', {
      type: 'application/json',
      frames: ['{"error":{"message":"backend died"}}'],
    });
    expect(heard.finishReason).toBeNull();
    expect(why(heard)).toContain('backend died');
  });

  it('are read where a whole response comes in place of the stream', async () => {
    const output = [
      {
        type: 'message',
        id: 'i',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Fine.', annotations: [] }],
      },
    ];
    const whole = {
      id: 'r',
      object: 'response',
      created_at: 1,
      model: 'm',
      status: 'completed',
      output,
      usage: { input_tokens: 1, output_tokens: 2 },
    };
    expect(await server.ask('openai', { type: 'application/json', frames: [JSON.stringify(whole)] })).toMatchObject(
      said('Fine.'),
    );
  });
});

it('every word has one meaning', () => {
  const words = Object.values(FINISH_WORDS).flat();
  expect(new Set(words).size).toBe(words.length);
  expect(words).not.toContain(DONE);
});

describe('a tool whose schema the provider’s package refuses', () => {
  const odd = { type: 'object' as const, properties: { at: { type: 'string' } }, propertyNames: true };

  it.each<Kind>(['openai', 'openai-chat', 'anthropic'])('is offered with a schema that it takes (%s)', async (kind) => {
    const heard = await server.ask(kind, { frames: ['{"error":{"message":"seen"}}'], type: 'application/json' }, odd);
    expect(why(heard)).toContain('seen');
    expect(JSON.stringify(server.requests.at(-1))).toContain('"look"');
    if (kind === 'openai') expect(JSON.stringify(server.requests.at(-1))).not.toContain('propertyNames');
  });
});
