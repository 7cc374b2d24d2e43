import { describe, expect, it } from 'vitest';
import { type Adaptation, adapt, describeAdaptation } from '../../src/domain/model/remedies/adaptation.ts';
import { planRemedy, type RefusedRequest } from '../../src/domain/model/remedies/plan-remedy.ts';
import { withWayOut } from '../../src/domain/model/remedies/way-out.ts';

const REQUEST: RefusedRequest = {
  tools: ['read_file', 'm__send'],
  files: [['@blob:2'], ['@blob:1', '@blob:2']],
  adaptations: [],
};
const plan = (words: string, adaptations: readonly Adaptation[] = [], status: number | null = 400) =>
  planRemedy('invalid_request', { status, texts: [words] }, { ...REQUEST, adaptations });

/** Words of providers, as their users reported them, and the first change that answers them. */
const ROWS: readonly (readonly [string, Adaptation])[] = [
  [
    'Missing `reasoning_content` field in the assistant message at message index 2.',
    adapt('return_thoughts', 'reasoning_content'),
  ],
  [
    'The `reasoning_content` in the thinking mode must be passed back to the API.',
    adapt('return_thoughts', 'reasoning_content'),
  ],
  [
    'thinking is enabled but reasoning_content is missing in assistant tool call message at index 4',
    adapt('return_thoughts', 'reasoning_content'),
  ],
  ['messages[1]: missing field `reasoning`', adapt('return_thoughts', 'reasoning')],
  [
    'The `content[].thinking` in the thinking mode must be passed back to the API.',
    adapt('return_thoughts', 'reasoning_content'),
  ],
  [
    'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.',
    adapt('without_thinking'),
  ],
  ["property 'reasoning_content' is unsupported, did you mean 'content'?", adapt('omit_thoughts')],
  ["Invalid parameter: 'messages.1.reasoning_content': Extra inputs are not permitted", adapt('omit_thoughts')],
  ['messages.1.content.0: Invalid `signature` in `thinking` block', adapt('omit_thoughts')],
  ['The encrypted content gAAA...c90= could not be verified.', adapt('omit_signed_thoughts')],
  [
    'Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content from a previous response.',
    adapt('omit_signed_thoughts'),
  ],
  [
    "Item 'ws_1' of type 'web_search_call' was provided without its required 'reasoning' item: 'rs_1'.",
    adapt('omit_provider_calls'),
  ],
  ["Invalid value: 'web_search_call'. Supported values are: 'message' and 'reasoning'.", adapt('omit_provider_calls')],
  ["Item 'rs_1' of type 'reasoning' was provided without its required following item.", adapt('omit_provider_calls')],
  [
    "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
    adapt('omit_thoughts'),
  ],
  [
    "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
    adapt('omit_thoughts'),
  ],
  ["Extra inputs are not permitted, field: 'messages[1].reasoning', value: 'x'", adapt('omit_thoughts')],
  ["Extra inputs are not permitted, field: 'store', value: False", adapt('without_parameter', 'store')],
  ["property 'store' is unsupported, did you mean 'stop'?", adapt('without_parameter', 'store')],
  [
    "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'",
    adapt('without_strict'),
  ],
  ["Unsupported JSON schema fields: {'minItems', 'items'}", adapt('without_strict')],
  ['Model grok-4 does not support parameter reasoningEffort.', adapt('without_parameter', 'reasoning_effort')],
  ['Argument not supported on this model: stop', adapt('without_parameter', 'stop')],
  ['invalid message content type: <nil>', adapt('plain_content')],
  ["Invalid 'content' type. Expected one of: ['str'], got list.", adapt('plain_content')],
  ["Invalid value for 'content': expected a string, got null.", adapt('plain_content')],
  [
    'Failed to deserialize the JSON body into the target type: messages[1].content: invalid type: null, expected a string',
    adapt('plain_content'),
  ],
  [
    'After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).',
    adapt('bridge_roles'),
  ],
  ['this model is missing data required for image input', adapt('omit_file', '@blob:2')],
  ['image input is not supported - hint: you may need to provide the mmproj', adapt('omit_file', '@blob:2')],
  ['json mode cannot be combined with tool/function calling', adapt('without_parameter', 'response_format')],
  ['tool choice is not supported on this model', adapt('without_parameter', 'tool_choice')],
  ['Encrypted content is not supported with this model.', adapt('without_parameter', 'include')],
  [
    'messages.3.content.9: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.',
    adapt('omit_signed_thoughts'),
  ],
  [
    'Your organization must be verified to generate reasoning summaries. Please go to: https://example.com',
    adapt('without_parameter', 'reasoning.summary'),
  ],
  ['thinking.block_binding: Extra inputs are not permitted', adapt('without_parameter', 'thinking.block_binding')],
  ['The toolConfig field must be defined when using toolUse and toolResult content blocks.', adapt('calls_as_text')],
  ['Requests which include tool_use or tool_result blocks must define tools.', adapt('calls_as_text')],
  ['messages[0]: unknown variant `image`, expected one of `text`, `thinking`', adapt('omit_file', '@blob:2')],
  [
    "Invalid schema for function 'm__send': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
    adapt('simple_schema', 'm__send'),
  ],
  [
    'Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.',
    adapt('dummy_signatures'),
  ],
  ['Tool call id was call_PTLP8 but must be a-z, A-Z, 0-9, with a length of 9.', adapt('nine_letter_ids')],
  ["messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", adapt('plain_ids')],
  ["Invalid 'messages[2].tool_call_id': string too long. Expected a string with maximum length 40", adapt('plain_ids')],
  ["Unexpected role 'user' after role 'tool'", adapt('bridge_roles')],
  [
    'After the optional system message, conversation roles must alternate user/assistant/user/assistant/...',
    adapt('bridge_roles'),
  ],
  ['Could not process image', adapt('omit_file', '@blob:2')],
  ['messages.0.content.0.pdf.source.base64.data: The PDF specified was not valid.', adapt('omit_file', '@blob:2')],
  [
    'messages.0.content.0.pdf.source.base64.data: The PDF specified is password protected.',
    adapt('omit_file', '@blob:2'),
  ],
  [
    "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png']",
    adapt('omit_file', '@blob:2'),
  ],
  ['The image data you provided does not represent a valid image.', adapt('omit_file', '@blob:2')],
  ['Failed to load image or audio file', adapt('omit_file', '@blob:2')],
  ['Unable to process input image. Please retry or report', adapt('omit_file', '@blob:2')],
  ['Image does not match the provided media type image/png', adapt('omit_file', '@blob:2')],
  ['At most 0 image(s) may be provided: m is not a multimodal model', adapt('omit_file', '@blob:2')],
  [
    'tools.1.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level',
    adapt('simple_schema', 'm__send'),
  ],
  [
    "tools.1.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
    adapt('simple_schema', 'm__send'),
  ],
  ["Invalid schema for function 'm__send': array schema missing items.", adapt('without_strict')],
  ["Unsupported parameter: 'temperature' is not supported with this model.", adapt('without_parameter', 'temperature')],
  ['Unrecognized request argument supplied: prompt_cache_key', adapt('without_parameter', 'prompt_cache_key')],
  ['`temperature` is deprecated for this model.', adapt('without_parameter', 'temperature')],
  ['top_k: Extra inputs are not permitted', adapt('without_parameter', 'top_k')],
  [
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    adapt('completion_tokens'),
  ],
  ['Unknown name "seed": Cannot find field.', adapt('without_parameter', 'seed')],
];

describe('the words of a refusal', () => {
  it.each(ROWS)('%s', (words, change) => {
    expect(plan(words)[0]).toEqual(change);
    expect(describeAdaptation(change)).toMatch(/^[A-Z].*\.$/);
  });

  it.each([
    'The model is overloaded.',
    'Invalid value for messages[0].content',
    'Your credit balance is too low to read the image.',
    "Unsupported parameter: 'messages'",
    'Something about a file was said in the middle of the prompt',
  ])('without a remedy: %s', (words) => {
    expect(plan(words)).toEqual([]);
  });

  it('are none where the refusal is one of a key or of load', () => {
    expect(plan('Could not process image', [], 401)).toEqual([]);
    expect(planRemedy('rate_limited', { status: 429, texts: ['Could not process image'] }, REQUEST)).toEqual([]);
  });
});

describe('a change that did not help', () => {
  it('is followed by the next one, and then by none', () => {
    const words = 'tools.1.custom: not accepted.';
    const simple = adapt('simple_schema', 'm__send');
    const omitted = adapt('omit_tool', 'm__send');
    expect(plan(words)).toEqual([simple]);
    expect(plan(words, [simple])).toEqual([omitted]);
    expect(plan(words, [simple, omitted])).toEqual([]);
  });

  it('is followed by all files, where the newest were not the cause', () => {
    const newest = adapt('omit_file', '@blob:2');
    const words = 'Could not process image';
    expect(plan(words, [newest])).toEqual([adapt('omit_file', '@blob:1')]);
    expect(plan(words, [newest, adapt('omit_file', '@blob:1')])).toEqual([]);
  });
});

describe('a refusal without a remedy', () => {
  const error = (message: string) => ({ code: 'invalid_request', message }) as const;
  const tools = [{ name: 'read_file' }, { name: 'm__send' }];

  it('names the tool of which only the place was told, and the ways out', () => {
    const { message } = withWayOut(error('tools.1.custom.input_schema: no.'), tools);
    expect(message).toContain('The tool is m__send.');
    expect(message).toMatch(/revert.*exclude.*model/);
  });

  it('stays as it is where the next message may be taken', () => {
    const overloaded = { code: 'overloaded', message: 'Busy.' } as const;
    expect(withWayOut(overloaded, tools)).toBe(overloaded);
  });
});
