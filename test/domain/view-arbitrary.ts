import fc from 'fast-check';
import type {
  Json,
  Part,
  PartMarks,
  ProviderMetadata,
  ToolPart,
  ViewMessage,
  ViewPart,
} from '../../src/domain/transcript/message.ts';
import { TOOL_CALL_STATES } from '../../src/domain/transcript/tool-call.ts';

const MODELS = ['openai/gpt-5', 'anthropic/claude'] as const;

/** Texts that providers take, and some that they refuse. */
const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }) },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', '\n\t ', 'same', 'same') },
);

/** Few similar ids, so that they collide, and ids that no provider takes. */
const recordedId = fc.constantFrom(
  'call_1',
  'call_1',
  'call_2',
  'call_1-1-0',
  'call_1-2-1',
  'functions.bash:0',
  'functions_bash_0',
  'x'.repeat(64),
  'x'.repeat(90),
  'ü',
  '',
);

const toolName = fc.constantFrom('read', 'bash', 'web_search', 'mcp.docs/read', 'n'.repeat(80), '');

const metadata: fc.Arbitrary<ProviderMetadata> = fc.oneof(
  fc.record({
    openai: fc.record({
      itemId: fc.constantFrom('rs_1', 'rs_2', 'msg_1', 'fc_1'),
      reasoningEncryptedContent: fc.constantFrom('gAAAA', 'gBBBB', '', null),
    }),
  }),
  fc.record({ openai: fc.record({ itemId: fc.constantFrom('rs_1', 'rs_2') }) }),
  fc.record({ openai: fc.record({ reasoningEncryptedContent: fc.constantFrom('gAAAA', null) }) }),
  fc.constantFrom<ProviderMetadata>(
    { anthropic: { signature: 'c2ln' } },
    { anthropic: { redactedData: 'cmVk' } },
    { anthropic: {} },
    { openai: { itemId: 'msg_9', phase: 'commentary' } },
    {},
  ),
);

const optionalMetadata = fc.option(metadata, { nil: undefined });
const withMetadata = (providerMetadata: ProviderMetadata | undefined) =>
  providerMetadata === undefined ? {} : { providerMetadata };

/** Values that JSON and zod keep unchanged: JSON writes `-0` as `0`, and zod drops a key `__proto__`. */
export const json = fc
  .jsonValue({ maxDepth: 1 })
  .map((value) => JSON.stringify(value))
  .filter((text) => !text.includes('__proto__'))
  .map((text) => JSON.parse(text) as Json);

/** Texts and files, among them some that no provider takes. */
const content = fc.record({
  type: fc.constant('content' as const),
  value: fc.array(
    fc.oneof(
      fc.record({ type: fc.constant('text' as const), text }),
      fc.record({
        type: fc.constant('file' as const),
        mediaType: fc.constantFrom('image/png', 'application/pdf', 'audio/wav'),
        url: fc.constantFrom('data:image/png;base64,iVBORw0KGgo=', '@blob:1', 'https://example.com/a.png', 'no url'),
      }),
    ),
    { minLength: 1, maxLength: 3 },
  ),
});

const output: fc.Arbitrary<ToolPart['output']> = fc.option(
  fc.oneof(
    fc.record({ type: fc.constantFrom('text' as const, 'error-text' as const), value: text }),
    fc.record({ type: fc.constant('json' as const), value: json }),
    fc.constant({ type: 'json' as const, value: { action: { type: 'search', query: 'q' } } }),
    fc.record({ type: fc.constant('execution-denied' as const), reason: text }),
    fc.constant({ type: 'execution-denied' as const }),
    content,
  ),
  { nil: undefined },
);

const input: fc.Arbitrary<Json> = fc.oneof(
  { weight: 4, arbitrary: fc.dictionary(fc.string({ maxLength: 4 }), json, { maxKeys: 2 }) as fc.Arbitrary<Json> },
  { weight: 1, arbitrary: json },
  { weight: 1, arbitrary: fc.constantFrom<Json>('{"broken": ', '', null, []) },
);

const toolPart: fc.Arbitrary<ToolPart> = fc
  .record({
    toolCallId: recordedId,
    toolName,
    input,
    state: fc.constantFrom(...TOOL_CALL_STATES),
    output,
    providerExecuted: fc.constantFrom(true, false, undefined, undefined, undefined),
    metadata: optionalMetadata,
    result: optionalMetadata,
  })
  .map(({ metadata, result, output, providerExecuted, ...part }) => ({
    type: 'tool' as const,
    ...part,
    // A call that the provider runs itself never gives files.
    ...(output !== undefined && !(providerExecuted === true && output.type === 'content') && { output }),
    ...(providerExecuted !== undefined && { providerExecuted }),
    ...withMetadata(metadata),
    ...(result !== undefined && { resultProviderMetadata: result }),
  }));

const textPart = fc
  .record({ text, metadata: optionalMetadata })
  .map(({ text, metadata }): Part => ({ type: 'text', text, ...withMetadata(metadata) }));
const reasoningPart = fc
  .record({ text, metadata: optionalMetadata })
  .map(({ text, metadata }): Part => ({ type: 'reasoning', text, ...withMetadata(metadata) }));
const filePart = fc
  .record({
    mediaType: fc.constantFrom('image/png', 'IMAGE/JPEG', 'application/pdf', 'text/csv', 'audio/wav', 'image/svg+xml'),
    url: fc.constantFrom(
      'data:image/png;base64,iVBORw0KGgo=',
      'data:text/plain,hello',
      'data:;base64,',
      '@blob:1',
      'no url',
      'https://',
    ),
    filename: fc.constantFrom(undefined, '', 'a.png'),
  })
  .map(({ filename, ...file }): Part => ({ type: 'file', ...file, ...(filename !== undefined && { filename }) }));
const imageUrlPart = fc.constant<Part>({ type: 'file', mediaType: 'image/png', url: 'https://example.com/a.png' });
const otherPart = fc.constantFrom<Part>(
  { type: 'step-start' },
  { type: 'source', sourceId: '1', url: 'https://example.com' },
);
const compactionPart = text.map((text): Part => ({ type: 'compaction', text }));

const anyPart = fc.oneof(
  { weight: 4, arbitrary: textPart },
  { weight: 4, arbitrary: toolPart },
  { weight: 3, arbitrary: reasoningPart },
  { weight: 1, arbitrary: filePart },
  { weight: 1, arbitrary: imageUrlPart },
  { weight: 1, arbitrary: otherPart },
  { weight: 1, arbitrary: compactionPart },
);

const marks: fc.Arbitrary<PartMarks | undefined> = fc.constantFrom<PartMarks | undefined>(
  undefined,
  undefined,
  undefined,
  {},
  { pruned: true },
  { viewLimitChars: 1 },
  { viewLimitChars: 200 },
  { mediaStripped: true },
  { pruned: true, viewLimitChars: 10, mediaStripped: true },
);
const anyViewPart = fc
  .tuple(anyPart, marks)
  .map(([part, given]): ViewPart => (given === undefined ? part : { ...part, marks: given }));

/** Any view that the types allow: roles in any order, any states, ids that repeat, texts without content, any marks. */
export const anyView: fc.Arbitrary<ViewMessage[]> = fc
  .array(
    fc.record({
      role: fc.constantFrom('user' as const, 'assistant' as const),
      model: fc.constantFrom(...MODELS, ...MODELS, null),
      parts: fc.array(anyViewPart, { maxLength: 6 }),
    }),
    { maxLength: 8 },
  )
  .map((messages) => messages.map((message, index) => ({ id: `m${index}`, seq: index + 1, ...message })));

export const anyModel = fc.constantFrom(...MODELS);
