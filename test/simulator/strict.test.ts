import { describe, expect, test } from 'vitest';
import { issueReasoning } from '../../simulator/encrypted-reasoning.ts';
import type { Protocol } from '../../simulator/request.ts';
import { startSimulator } from '../../simulator/server.ts';
import type { ViolationClass } from '../../simulator/violation.ts';
import { post, runStep, TOOLS } from './client.ts';

const user = { role: 'user', content: 'Go.' };
const call = (id: string, args = '{}') => ({ type: 'function_call', call_id: id, name: 'look', arguments: args });
const output = (id: string, text = 'seen') => ({ type: 'function_call_output', call_id: id, output: text });
const reasoning = (model: string) => ({ type: 'reasoning', summary: [], encrypted_content: issueReasoning(model, 5) });
const calls = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })),
});
const result = (id: string, content = 'seen') => ({ role: 'tool', tool_call_id: id, content });
const said = (content: string) => ({ role: 'assistant', content });

async function judge(protocol: Protocol, history: unknown[], fields: Record<string, unknown> = {}, strict = true) {
  await using simulator = await startSimulator({ strict });
  simulator.script('m', [{ text: 'ok' }]);
  const body =
    protocol === 'chat'
      ? { model: 'm', messages: history }
      : { model: 'm', store: false, stream: true, input: history };
  const response = await post(simulator.url, protocol, { ...body, ...fields });
  const answer = await response.text();
  return { status: response.status, answer, record: simulator.requests[0] };
}

const INVALID: [
  protocol: Protocol,
  rule: string,
  history: unknown[],
  message: string,
  fields?: Record<string, unknown>,
][] = [
  ['responses', 'starts with the assistant', [said('Hi.'), user], 'first non-system message must be from the user'],
  ['responses', 'ends with the assistant', [user, said('Hi.')], 'Expected last role User or Tool'],
  ['responses', 'has no message', [], 'at least one user message'],
  [
    'responses',
    'leaves a call unanswered',
    [user, call('a'), call('b'), output('a'), user],
    'No tool output found for function call b',
  ],
  ['responses', 'ends with an unanswered call', [user, call('a')], 'No tool output found for function call a'],
  [
    'responses',
    'answers after the next message',
    [user, call('a'), user, output('a')],
    'No tool output found for function call a',
  ],
  [
    'responses',
    'answers after the next reply',
    [user, call('a'), said('Hm.'), output('a'), user],
    'No tool output found for function call a',
  ],
  [
    'responses',
    'starts the next batch too early',
    [user, call('a'), call('b'), output('a'), call('c'), output('b'), output('c')],
    'No tool output found for function call b',
  ],
  [
    'responses',
    'has an output without call',
    [user, output('a')],
    'No tool call found for function call output with call_id a',
  ],
  [
    'responses',
    'answers a call twice',
    [user, call('a'), output('a'), output('a')],
    'No tool call found for function call output with call_id a',
  ],
  ['responses', 'uses an id twice in a batch', [user, call('a'), call('a'), output('a')], 'Duplicate tool call id'],
  ['responses', 'has an empty text', [{ role: 'user', content: [{ type: 'input_text', text: '' }] }], 'non-empty'],
  ['responses', 'has an empty assistant text', [user, said(''), user], 'non-empty'],
  ['responses', 'has an empty tool output', [user, call('a'), output('a', '')], 'non-empty'],
  ['responses', 'has arguments that are not JSON', [user, call('a', '{"x":'), output('a')], 'not valid JSON'],
  ['responses', 'stores the response', [user], "Invalid value for 'store'", { store: true }],
  ['responses', 'does not say whether to store', [user], "Invalid value for 'store'", { store: undefined }],
  [
    'responses',
    'refers to a stored item',
    [{ type: 'item_reference', id: 'rs_1' }, user],
    "Item with id 'rs_1' not found",
  ],
  [
    'responses',
    'builds on a stored response',
    [user],
    "Previous response with id 'resp_1' not found",
    { previous_response_id: 'resp_1' },
  ],
  [
    'responses',
    'carries reasoning of another model',
    [user, reasoning('other'), call('a'), output('a')],
    'could not be verified',
  ],
  [
    'responses',
    'carries reasoning that nobody issued',
    [user, { ...reasoning('m'), encrypted_content: 'enc_m_5.00.00' }, call('a'), output('a')],
    'could not be verified',
  ],
  [
    'responses',
    'carries reasoning without content',
    [user, { type: 'reasoning', summary: [] }, call('a'), output('a')],
    "must carry 'encrypted_content'",
  ],
  ['responses', 'has an unknown item', [user, { type: 'mystery' }], 'not a supported input item'],
  [
    'responses',
    'names a tool twice',
    [user],
    'tool names must be unique',
    { tools: [1, 2].map(() => ({ type: 'function', name: 't', parameters: { type: 'object' } })) },
  ],
  [
    'responses',
    'has a tool without object schema',
    [user],
    'type: "object"',
    { tools: [{ type: 'function', name: 't', parameters: { type: 'string' } }] },
  ],
  [
    'chat',
    'starts with the assistant',
    [{ role: 'system', content: 'S' }, said('Hi.'), user],
    'first non-system message must be from the user',
  ],
  ['chat', 'ends with the assistant', [user, said('Hi.')], 'Expected last role User or Tool'],
  ['chat', 'leaves a call unanswered', [user, calls('a', 'b'), result('b'), user], 'did not have response messages: a'],
  [
    'chat',
    'ends before all calls are answered',
    [user, calls('a', 'b'), result('b')],
    'did not have response messages: a',
  ],
  [
    'chat',
    'answers after the next message',
    [user, calls('a'), user, result('a')],
    'did not have response messages: a',
  ],
  [
    'chat',
    'has a result without call',
    [user, result('a')],
    "must be a response to a preceding message with 'tool_calls'",
  ],
  [
    'chat',
    'answers a call twice',
    [user, calls('a'), result('a'), result('a')],
    "must be a response to a preceding message with 'tool_calls'",
  ],
  ['chat', 'has two user messages in a row', [user, user], 'must alternate'],
  ['chat', 'has two assistant messages in a row', [user, said('A'), said('B'), user], 'must alternate'],
  ['chat', 'has an empty text', [{ role: 'user', content: '' }], 'non-empty'],
  ['chat', 'has an assistant message with nothing in it', [user, said(''), user], 'non-empty'],
  ['chat', 'has an empty tool result', [user, calls('a'), result('a', '')], 'non-empty'],
  [
    'chat',
    'has arguments that are not JSON',
    [
      user,
      {
        role: 'assistant',
        content: 'x',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'look', arguments: '{' } }],
      },
      result('a'),
    ],
    'not valid JSON',
  ],
  ['chat', 'has a role that does not exist', [user, { role: 'oracle', content: 'x' }], 'not a valid message'],
  [
    'chat',
    'names a tool twice',
    [user],
    'tool names must be unique',
    { tools: [1, 2].map(() => ({ type: 'function', function: { name: 't', parameters: { type: 'object' } } })) },
  ],
  [
    'chat',
    'has a tool without object schema',
    [user],
    'type: "object"',
    { tools: [{ type: 'function', function: { name: 't' } }] },
  ],
];

test.each(INVALID)('%s: a request that %s is refused', async (protocol, _rule, history, message, fields) => {
  const { status, answer, record } = await judge(protocol, history, fields);
  expect(status).toBe(400);
  expect(JSON.parse(answer)).toMatchObject({ error: { type: 'invalid_request_error' } });
  expect(record?.violations.join('\n')).toContain(message);
  expect(record?.outcome).toBe('refused');
});

test.each<[ViolationClass, Protocol, unknown[]]>([
  ['pairing', 'responses', [user, call('a'), user]],
  ['pairing', 'responses', [user, output('a')]],
  ['pairing', 'chat', [user, calls('a', 'b'), result('b')]],
  ['order', 'chat', [user, user]],
  ['order', 'responses', [user, said('Hi.')]],
  ['empty', 'chat', [{ role: 'user', content: '' }]],
  ['empty', 'responses', []],
  ['shape', 'responses', [user, call('a', '{'), output('a')]],
  ['shape', 'chat', [user, { role: 'oracle', content: 'x' }]],
  ['signature', 'responses', [user, reasoning('other'), call('a'), output('a')]],
])('a violation is noted as one of %s (%s)', async (kind, protocol, history) => {
  const { record } = await judge(protocol, history);
  expect(record?.violationClasses).toEqual([kind]);
  expect(record?.refusal).toBe('invalid');
});

const VALID: [protocol: Protocol, what: string, history: unknown[]][] = [
  [
    'responses',
    'parallel calls and a later batch with the same ids',
    [user, call('a'), call('b'), output('b'), output('a'), call('a'), output('a'), user],
  ],
  [
    'responses',
    'reasoning and text before the calls, and two user messages in a row',
    [user, user, reasoning('m'), said('I look.'), call('a'), output('a')],
  ],
  [
    'responses',
    'reasoning between the calls of a batch',
    [user, reasoning('m'), call('a'), reasoning('m'), call('b'), output('a'), output('b')],
  ],
  [
    'chat',
    'parallel calls answered in any order and the same ids later',
    [user, calls('a', 'b'), result('b'), result('a'), calls('a'), result('a'), said('Done.'), user],
  ],
];

test.each(VALID)('%s: %s pass', async (protocol, _what, history) => {
  const { status, record } = await judge(protocol, history);
  expect(record?.violations).toEqual([]);
  expect(status).toBe(200);
});

describe('the judgement', () => {
  test('is only noted when the simulator is not strict', async () => {
    const { status, record } = await judge('chat', [user, user], {}, false);
    expect(status).toBe(200);
    expect(record?.violations).toHaveLength(1);
  });

  test.each(['{"model":', '{"model":"m"}', '[]'])('refuses the malformed body %s', async (body) => {
    await using simulator = await startSimulator();
    for (const protocol of ['responses', 'chat'] as const) {
      expect((await post(simulator.url, protocol, body)).status).toBe(400);
    }
    expect(simulator.requests.map(({ outcome }) => outcome)).toEqual(['refused', 'refused']);
  });

  test('accepts the reasoning, calls and late text that the provider package sends back', async () => {
    await using simulator = await startSimulator();
    const toolCalls = [{ id: 'a', name: 'look', input: { path: 'x' } }];
    simulator.script('m', [
      { reasoning: 'Hm.', text: 'I look.', toolCalls, textAfterTools: 'Looking.' },
      { text: 'Done.' },
    ]);
    const question = { role: 'user' as const, content: 'Look!' };
    const first = await runStep(simulator.url, 'responses', { messages: [question], tools: TOOLS });
    const messages = [
      question,
      ...(await first.messages()),
      {
        role: 'tool' as const,
        content: [
          {
            type: 'tool-result' as const,
            toolCallId: 'a',
            toolName: 'look',
            output: { type: 'text' as const, value: 'seen' },
          },
        ],
      },
    ];
    const second = await runStep(simulator.url, 'responses', { messages, tools: TOOLS });
    expect(simulator.requests[1]?.violations).toEqual([]);
    expect(second.text).toBe('Done.');
    const [, reply, results] = simulator.requests[1]?.request?.messages ?? [];
    expect(reply).toMatchObject({ role: 'assistant', toolCalls: [{ id: 'a', input: { path: 'x' } }] });
    expect(reply?.parts.map(({ type }) => type)).toEqual(['reasoning', 'text', 'text']);
    expect(results).toMatchObject({ role: 'tool', toolResults: [{ id: 'a', output: 'seen' }] });
  });
});
