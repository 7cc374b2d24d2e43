import { expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { signThinking } from '../../simulator/thinking-signature.ts';
import type { ViolationClass } from '../../simulator/violation.ts';
import { post, runStep, TOOLS } from './client.ts';

const user = (...content: unknown[]) => ({ role: 'user', content: content.length > 0 ? content : 'Go.' });
const said = (...content: unknown[]) => ({ role: 'assistant', content });
const text = (content: string) => ({ type: 'text', text: content });
const call = (id: string, fields = {}) => ({ type: 'tool_use', id, name: 'look', input: {}, ...fields });
const result = (id: string, content = 'seen') => ({ type: 'tool_result', tool_use_id: id, content });
const thinking = (model = 'm', thought = 'Hm.', signed = thought) => ({
  type: 'thinking',
  thinking: thought,
  signature: signThinking(model, signed, 'elsewhere'),
});
const mark = { cache_control: { type: 'ephemeral' } };
/** Without it every thinking that another prompt was answered with is refused. */
const DROP = { thinking: { block_binding: { prefix_mismatch_behavior: 'drop_block' } } };

async function judge(messages: unknown[], fields: Record<string, unknown> = {}) {
  await using simulator = await startSimulator();
  simulator.script('m', [{ text: 'ok' }]);
  const body = { model: 'm', max_tokens: 9, messages, ...fields };
  const response = await post(simulator.url, 'messages', body);
  return { status: response.status, answer: await response.json(), record: simulator.requests[0] };
}

const INVALID: [kind: ViolationClass, what: string, messages: unknown[], message: string, fields?: object][] = [
  ['order', 'starts with the assistant', [said(text('Hi.')), user()], 'first message must use the "user" role'],
  ['order', 'ends with the assistant', [user(), said(text('Hi.'))], 'does not support assistant message prefill'],
  ['order', 'has two user messages in a row', [user(), user()], 'multiple "user" roles in a row'],
  [
    'order',
    'has two assistant messages in a row',
    [user(), said(text('A')), said(text('B')), user()],
    'multiple "assistant" roles in a row',
  ],
  [
    'order',
    'has text before a result',
    [user(), said(call('a')), user(text('And?'), result('a'))],
    '`tool_result` blocks must come first',
  ],
  [
    'order',
    'has text after a call',
    [user(), said(call('a'), text('Wait.')), user(result('a'))],
    '`tool_use` blocks must be the last blocks',
  ],
  [
    'order',
    'has text before thinking',
    [user(), said(text('I see.'), thinking(), call('a')), user(result('a'))],
    'the first block must be `thinking` or `redacted_thinking`. Found `text`',
    DROP,
  ],
  [
    'order',
    'ends an assistant message with thinking',
    [user(), said(thinking()), user()],
    'The final block in an assistant message cannot be `thinking`',
    DROP,
  ],
  [
    'order',
    'lacks thinking in a tool loop although it is enabled',
    [user(), said(call('a')), user(result('a'))],
    'a final `assistant` message must start with a thinking block',
    { thinking: { type: 'enabled', budget_tokens: 1024 } },
  ],
  ['empty', 'has no message', [], 'at least one message is required'],
  ['empty', 'has a message without content', [user(), said(), user()], 'all messages must have non-empty content'],
  ['empty', 'has an empty user text', [{ role: 'user', content: '' }], 'all messages must have non-empty content'],
  ['empty', 'has a blank text', [user(text(' \n'))], 'must contain non-whitespace text'],
  ['empty', 'has an empty result', [user(), said(call('a')), user(result('a', ''))], 'non-whitespace text'],
  ['empty', 'has an empty system text', [user()], 'non-whitespace text', { system: [text('')] }],
  ['pairing', 'leaves a call unanswered', [user(), said(call('a')), user()], 'ids were found without `tool_result`'],
  [
    'pairing',
    'answers only one call of a batch',
    [user(), said(call('a'), call('b')), user(result('b'))],
    'immediately after: a.',
  ],
  ['pairing', 'has a result without a call', [user(result('a'))], 'unexpected `tool_use_id`'],
  [
    'pairing',
    'answers a call twice',
    [user(), said(call('a')), user(result('a'), result('a'))],
    'Found multiple `tool_result` blocks with id: a',
  ],
  [
    'pairing',
    'uses an id in two steps',
    [user(), said(call('a')), user(result('a')), said(call('a')), user(result('a'))],
    '`tool_use` ids must be unique',
  ],
  ['name', 'has a call id with a dot', [user(), said(call('a.b')), user(result('a.b'))], 'tool_use.id: String should'],
  [
    'name',
    'has a call with a bad name',
    [user(), said(call('a', { name: 'mcp.look' })), user(result('a'))],
    'tool_use.name: String should',
  ],
  ['name', 'has a tool with a bad name', [user()], 'tools[0].name', { tools: [tool('mcp.look')] }],
  ['name', 'names a tool twice', [user()], 'tool names must be unique', { tools: [tool('a'), tool('a')] }],
  ['shape', 'has an input that is no object', [user(), said(call('a', { input: [] })), user()], 'input'],
  ['shape', 'has an unknown block', [user({ type: 'mystery' })], 'messages.0.content.0'],
  ['shape', 'has a call of the user', [user(call('a'))], 'messages.0.content.0'],
  ['shape', 'has an unknown role', [{ role: 'system', content: 'x' }], 'messages.0.role'],
  ['shape', 'does not say how long the answer may be', [user()], 'max_tokens', { max_tokens: undefined }],
  [
    'shape',
    'has a picture of no kind',
    [user({ type: 'image', source: { type: 'base64', media_type: 'image/svg+xml', data: 'aaaa' } })],
    'media_type',
  ],
  ['signature', 'has thinking of another model', [user(), said(thinking('n'), text('A')), user()], 'Invalid', DROP],
  [
    'signature',
    'has thinking that was altered',
    [user(), said(thinking('m', 'Hm!', 'Hm.'), text('A')), user()],
    'Invalid `signature` in `thinking` block',
    DROP,
  ],
  [
    'signature',
    'has thinking that another prompt was answered with',
    [user(), said(thinking(), text('A')), user()],
    'The block is bound to a different conversation',
  ],
  [
    'cache',
    'has five cache marks',
    [user(...Array.from({ length: 5 }, () => ({ ...text('A'), ...mark })))],
    'A maximum of 4 blocks with cache_control may be provided. Found 5.',
  ],
  [
    'cache',
    'marks thinking for the cache',
    [user(), said({ ...thinking(), ...mark }, text('A')), user()],
    'cannot be set on thinking blocks',
    DROP,
  ],
];

function tool(name: string) {
  return { name, input_schema: { type: 'object' } };
}

test.each(INVALID)('%s: a request that %s is refused', async (kind, _what, messages, message, fields) => {
  const { status, answer, record } = await judge(messages, { ...fields });
  expect(status).toBe(400);
  expect(answer).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } });
  expect(record?.violations.join('\n')).toContain(message);
  expect(new Set(record?.violationClasses)).toEqual(new Set([kind]));
  expect(record).toMatchObject({ outcome: 'refused', refusal: 'invalid' });
});

test.each<[string, unknown[], object?]>([
  [
    'parallel calls answered in any order, then text',
    [user(), said(call('a'), call('b')), user(result('b'), result('a'), text('And?'))],
  ],
  ['four cache marks', [user(...Array.from({ length: 4 }, () => ({ ...text('A'), ...mark })))]],
  ['thinking of another prompt that may be dropped', [user(), said(thinking(), call('a')), user(result('a'))], DROP],
  [
    'a tool loop without thinking that has ended',
    [user(), said(call('a')), user(result('a')), said(text('Done.')), user()],
    { thinking: { type: 'enabled', budget_tokens: 1024 } },
  ],
])('%s pass', async (_what, messages, fields) => {
  const { status, record } = await judge(messages, { ...fields });
  expect(record?.violations).toEqual([]);
  expect(status).toBe(200);
});

test('thinking passes where it was given out, and no longer when what came before it is altered', async () => {
  await using simulator = await startSimulator();
  simulator.script('m', () => ({ reasoning: 'Hm.', text: 'Done.' }));
  const question = { role: 'user' as const, content: 'Look!' };
  const first = await runStep(simulator.url, 'messages', { messages: [question], tools: TOOLS });
  const later = [...(await first.messages()), { role: 'user' as const, content: 'And?' }];
  expect((await runStep(simulator.url, 'messages', { messages: [question, ...later] })).text).toBe('Done.');
  const altered = { role: 'user' as const, content: 'Look away!' };
  const { error } = await runStep(simulator.url, 'messages', { messages: [altered, ...later] });
  expect(error).toMatchObject({ message: expect.stringContaining('bound to a different conversation') });
  const instructed = await runStep(simulator.url, 'messages', {
    messages: [question, ...later],
    instructions: 'Be long.',
  });
  expect(instructed.error).toMatchObject({ statusCode: 400 });
});
