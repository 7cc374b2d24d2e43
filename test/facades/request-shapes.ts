/** A request as clients send it. `param`: the field by which it is refused; absent: it is taken. */
export type RequestShape = Readonly<{ fields: object; param?: string }>;

const FUNCTION = { name: 'weather', description: 'Tells it.', parameters: { type: 'object', properties: {} } };
const TOOL = { type: 'function', function: FUNCTION };
const FLAT = { type: 'function', ...FUNCTION };
const user = (content: unknown, more: object = {}) => ({ role: 'user', content, ...more });
const said = (content: unknown, more: object = {}) => ({ role: 'assistant', content, ...more });
const HI = user('Hi');
const CALL = { id: 'call_x', type: 'function', function: { name: 'weather', arguments: '{}' } };
const CACHED = { cache_control: { type: 'ephemeral' } };
const PIXEL = 'data:image/png;base64,iVBORw0KGgo=';
const PDF = 'data:application/pdf;base64,JVBERi0=';
const text = (words: string, more: object = {}) => ({ type: 'text', text: words, ...more });
const named = { type: 'function', function: { name: 'weather' } };
const messages = (...list: readonly object[]) => ({ fields: { messages: list } });
const chat = (fields: object, param?: string) => ({
  fields: { messages: [HI], ...fields },
  ...(param !== undefined && { param }),
});
const tools = (tool: object, more: object = {}) => chat({ tools: [tool], ...more });
const refused = (shape: RequestShape, param: string): RequestShape => ({ ...shape, param });

/** Of chat completions, by what is odd about them. */
export const CHAT_SHAPES: Readonly<Record<string, RequestShape>> = {
  'a tool that is strict': tools({ type: 'function', function: { ...FUNCTION, strict: true } }),
  'a tool without parameters': tools({ type: 'function', function: { name: 'now' } }),
  'a tool with parameters {}': tools({ type: 'function', function: { name: 'now', parameters: {} } }),
  'a tool with parameters without a type': tools({
    type: 'function',
    function: { name: 'now', parameters: { properties: { at: { type: 'string' } } } },
  }),
  'a tool with null for its description': tools({ type: 'function', function: { ...FUNCTION, description: null } }),
  'a tool with cache_control': tools({ ...TOOL, ...CACHED }),
  'a custom tool': refused(tools({ type: 'custom', custom: { name: 'x' } }), 'tools'),
  'tool_choice by name': tools(TOOL, { tool_choice: named }),
  'tool_choice required': tools(TOOL, { tool_choice: 'required' }),
  'tool_choice with allowed_tools': tools(TOOL, {
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [named] } },
  }),
  'tool_choice any': refused(tools(TOOL, { tool_choice: 'any' }), 'tool_choice'),
  'parallel_tool_calls false': tools(TOOL, { parallel_tool_calls: false }),
  'parallel_tool_calls without tools': chat({ parallel_tool_calls: false }),
  'no tools in a list': chat({ tools: [] }),
  'a system message alone': messages({ role: 'system', content: 'Say hello.' }),
  'a developer message alone': messages({ role: 'developer', content: [text('Say hello.')] }),
  'a system message at the end': messages(HI, { role: 'system', content: 'Be short.' }),
  'two system messages': messages({ role: 'system', content: 'A' }, { role: 'system', content: 'B' }, HI),
  'cache_control in a part': messages(user([text('Hi', CACHED)])),
  'cache_control in a system part': messages({ role: 'system', content: [text('Be short.', CACHED)] }, HI),
  'cache_control in a message': messages(user('Hi', CACHED)),
  'cache_control in a result': messages(said(null, { tool_calls: [CALL] }), {
    ...{ role: 'tool', tool_call_id: 'call_x', content: [text('sun', CACHED)] },
  }),
  'ids in messages': messages(user('Hi', { id: 'msg_1' }), said('Yes?', { id: 'msg_2' }), user('And?')),
  'a name in a message': messages(user('Hi', { name: 'ada' })),
  'null for the content of calls': messages(said(null, { tool_calls: [CALL] }), {
    ...{ role: 'tool', tool_call_id: 'call_x', content: 'sun' },
  }),
  'empty content of calls': messages(said('', { tool_calls: [CALL] }), {
    ...{ role: 'tool', tool_call_id: 'call_x', content: '' },
  }),
  'an answer in parts with fields of a library': messages(
    HI,
    said([{ type: 'output_text', text: 'Yes?', role: 'assistant', annotations: [] }]),
    user('And?'),
  ),
  'a refusal in parts': messages(HI, said([{ type: 'refusal', refusal: 'No.' }]), user('And?')),
  'an answer with reasoning beside it': messages(HI, said('Yes?', { reasoning_content: 'Hm.' }), user('And?')),
  'an answer with null for all else': messages(
    HI,
    said('Yes?', { refusal: null, audio: null, function_call: null, annotations: [] }),
    user('And?'),
  ),
  'a file in a result': messages(said(null, { tool_calls: [CALL] }), {
    ...{ role: 'tool', tool_call_id: 'call_x', content: [{ type: 'image_url', image_url: { url: PIXEL } }] },
  }),
  'an image by data URL': messages(
    user([text('Look'), { type: 'image_url', image_url: { url: PIXEL, detail: 'low' } }]),
  ),
  'an image by URL': messages(user([{ type: 'image_url', image_url: { url: 'https://a.example/x.png?s=1' } }])),
  'an image by URL without an ending': refused(
    messages(user([{ type: 'image_url', image_url: { url: 'https://a.example/x' } }])),
    'messages',
  ),
  'a document by its data': messages(user([{ type: 'file', file: { file_data: PDF, filename: 'a.pdf' } }])),
  'a document by the id of a file': refused(
    messages(user([{ type: 'file', file: { file_id: 'file-1' } }])),
    'messages',
  ),
  sound: refused(messages(user([{ type: 'input_audio', input_audio: { data: '', format: 'mp3' } }])), 'messages'),
  'a message of a function': refused(messages({ role: 'function', name: 'x', content: 'y' }), 'messages'),
  max_tokens: chat({ max_tokens: 100 }),
  'max_tokens -1': refused(chat({ max_tokens: -1 }), 'max_tokens'),
  'n 1': chat({ n: 1 }),
  'n 2': refused(chat({ n: 2 }), 'n'),
  'penalties of 0': chat({ presence_penalty: 0, frequency_penalty: 0 }),
  logprobs: refused(chat({ logprobs: true }), 'logprobs'),
  'a seed': chat({ seed: 7 }),
  'a stop text': chat({ stop: 'END' }),
  stream_options: chat({ stream: true, stream_options: { include_usage: true } }),
  'all that gateways leave empty': chat({ logit_bias: {}, functions: [], metadata: {}, audio: {}, stop: [], user: '' }),
  'a tier of service': chat({ service_tier: 'auto', store: false }),
  'metadata, a user and an end user': chat({ metadata: { a: 'b' }, user: 'ada', safety_identifier: 'ada-1' }),
  'what means the default': chat({ temperature: null, verbosity: 'medium', modalities: ['text'], top_logprobs: 0 }),
  'the effort of reasoning': chat({ reasoning_effort: 'minimal' }),
  'reasoning of a gateway': refused(chat({ reasoning: { effort: 'low' } }), 'reasoning'),
  top_k: refused(chat({ top_k: 5 }), 'top_k'),
  'a result as any object': chat({ response_format: { type: 'json_object' } }),
  'a strict schema': chat({
    response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema: { type: 'object' } } },
  }),
};

const input = (...list: readonly object[]) => ({ fields: { input: list } });
const response = (fields: object) => ({ fields: { input: 'Hi', ...fields } });
const OUTPUT = { type: 'function_call_output', call_id: 'call_x', output: 'sun' };
const CALLED = {
  type: 'function_call',
  call_id: 'call_x',
  name: 'weather',
  arguments: '{}',
  id: 'fc_1',
  status: 'completed',
};

/** Of responses. */
export const RESPONSE_SHAPES: Readonly<Record<string, RequestShape>> = {
  'a text': response({}),
  'messages without a type': input(HI),
  'a system message alone': input({ role: 'system', content: 'Say hello.' }),
  'a document by URL': input(user([{ type: 'input_file', file_url: 'https://a.example/x.pdf' }])),
  'another file by URL': refused(input(user([{ type: 'input_file', file_url: 'https://a.example/x' }])), 'input'),
  'a document by its data': input(user([{ type: 'input_file', file_data: PDF, filename: 'a.pdf' }])),
  'penalties of 0': response({ presence_penalty: 0, frequency_penalty: 0 }),
  'parallel_tool_calls false': response({ tools: [FLAT], parallel_tool_calls: false }),
  'a tool that is strict': response({ tools: [{ ...FLAT, strict: true }] }),
  'a tool with parameters {}': response({ tools: [{ type: 'function', name: 'now', parameters: {} }] }),
  'a tool of the provider': refused(response({ tools: [{ type: 'web_search' }] }), 'tools.0.type'),
  'tool_choice with allowed_tools': response({
    tools: [FLAT],
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'weather' }] },
  }),
  'phases of the assistant': input(HI, { type: 'message', ...said('Wait.', { phase: 'commentary' }) }, user('And?')),
  'calls with their results': input(HI, CALLED, OUTPUT),
  'reasoning of another service': input(HI, { type: 'reasoning', id: 'rs_1', summary: [] }, said('Yes?'), user('And?')),
  'a summary of reasoning': response({ reasoning: { effort: 'low', summary: 'auto' } }),
  'nothing to store': response({ store: false, truncation: 'auto', metadata: {}, user: 'ada' }),
  'a name of the conversation': response({ conversation: 'order-7' }),
  'more to include': response({ include: ['reasoning.encrypted_content'] }),
  max_tool_calls: refused(response({ max_tool_calls: 3 }), 'max_tool_calls'),
  'a prompt that is stored elsewhere': refused(response({ prompt: { id: 'pmpt_1' } }), 'prompt'),
};
