import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashOfTools, isIncluded, nameForModel, type PinnedTool } from '../../src/agents/pinned-tools.ts';
import { TOOL_NAME } from '../../src/agents/tool-sources.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { toCallResult, toToolText, toToolValue } from '../../src/tools/mcp/call-result.ts';

const text = (value: string) => ({ type: 'text' as const, text: value });
const image = { type: 'image' as const, data: 'AAEC', mimeType: 'image/png' };
const file = (mediaType: string, data: string) => ({ type: 'file', mediaType, data: { type: 'data', data } });
const content = (...value: object[]) => ({ type: 'content', value });

describe('the answer of a server', () => {
  it.each([
    ['text', { content: [text('a'), text('b')] }, 'a\nb'],
    ['nothing', { content: [] }, '[no output]'],
    ['an image', { content: [text('a'), image] }, content(text('a'), file('image/png', 'AAEC'))],
    [
      'sound',
      { content: [{ type: 'audio', data: 'AA==', mimeType: 'audio/wav' }] },
      content(file('audio/wav', 'AA==')),
    ],
    [
      'a link',
      { content: [{ type: 'resource_link', uri: 'file:///a', name: 'a', mimeType: 'text/x', description: 'A file' }] },
      '[resource file:///a: a, text/x, A file]',
    ],
    [
      'a resource of text',
      { content: [{ type: 'resource', resource: { uri: 'file:///a', text: 'body' } }] },
      '[resource file:///a]\nbody',
    ],
    [
      'a resource of bytes',
      { content: [{ type: 'resource', resource: { uri: 'file:///a', blob: 'AAEC' } }] },
      content({ ...file('application/octet-stream', 'AAEC'), filename: 'file:///a' }),
    ],
    ['structured content alone', { content: [], structuredContent: { a: 1 } }, { a: 1 }],
    ['structured content and its JSON', { content: [text('{ "a": 1 }')], structuredContent: { a: 1 } }, { a: 1 }],
    [
      'structured content that has the JSON of the text below a key',
      { content: [text('[{ "a": 1 }]')], structuredContent: { entities: [{ a: 1 }] } },
      { entities: [{ a: 1 }] },
    ],
    [
      'structured content that has the text below one of its keys',
      { content: [text('Deleted.')], structuredContent: { success: true, message: 'Deleted.' } },
      { success: true, message: 'Deleted.' },
    ],
    [
      'structured content that has a text for each of its items',
      { content: [text('a'), text('2')], structuredContent: { result: ['a', 2] } },
      { result: ['a', 2] },
    ],
    [
      'structured content with other items than the texts',
      { content: [text('a'), text('b')], structuredContent: { result: ['a'] } },
      'a\nb\n{"result":["a"]}',
    ],
    ['structured content around the text', { content: [text('a')], structuredContent: { result: 'a' } }, 'a'],
    [
      'structured content around an image',
      { content: [image], structuredContent: { content: [image] } },
      content(file('image/png', 'AAEC')),
    ],
    [
      'an image that stands in the structured content, too',
      { content: [image], structuredContent: { shots: [{ png: 'AAEC', at: 1 }] } },
      content(file('image/png', 'AAEC'), text('{"shots":[{"png":"[image/png, 3 bytes, not shown]","at":1}]}')),
    ],
    [
      'an image that is no base64, beside text',
      { content: [text('a'), { ...image, data: '%%' }] },
      'a\n[malformed image/png, not shown: data: Invalid Base64 string]',
    ],
    ['an image of no bytes', { content: [{ ...image, data: '' }] }, '[malformed image/png, not shown: data: is empty]'],
    [
      'an image without data, beside one that has some',
      { content: [image, { type: 'image', mimeType: 'image/png' }] },
      content(file('image/png', 'AAEC'), text('[malformed image/png, not shown: data: is missing]')),
    ],
    [
      'an image of no type',
      { content: [{ ...image, mimeType: '' }] },
      content(file('application/octet-stream', 'AAEC')),
    ],
    [
      'a resource whose bytes are none',
      { content: [{ type: 'resource', resource: { uri: 'file:///a', blob: '%%', mimeType: 'audio/wav' } }] },
      '[malformed audio/wav, not shown: resource.blob: Invalid Base64 string]',
    ],
    [
      'content of a kind that nobody knows',
      { content: [{ type: 'hologram', rays: 3 }, 7] },
      '[malformed hologram, not shown: type: is not a kind of content]\n[malformed content, not shown: is not an object]',
    ],
    ['a list as its structured content', { structuredContent: [1, 2] }, [1, 2]],
    ['both, when they differ', { content: [text('one')], structuredContent: { a: 1 } }, 'one\n{"a":1}'],
  ])('with %s', (_what, answer, value) => {
    expect(toToolValue(toCallResult(answer))).toEqual(value);
  });

  it('is text alone where it says what went wrong', () => {
    const answer = toCallResult({ content: [text('a'), image], isError: true });
    expect(toToolText(answer)).toBe('a\n[image/png, 3 bytes, not shown]');
  });

  it.each([
    [{ content: [{ type: 'text', text: 'a', annotations: null, _meta: null }], structuredContent: null }, 'a'],
    [{ content: [{ type: 'text', text: 'a', annotations: { audience: null, priority: 5 } }], isError: null }, 'a'],
    [{ content: [{ type: 'text', text: 'a' }], _meta: null }, 'a'],
    [{ content: [null, { type: 'text', text: 'a' }] }, 'a'],
    [{ content: [{ text: 'a' }] }, 'a'],
    [{ content: [{ type: 'text', text: 7 }] }, '7'],
    [{ content: [{ type: 'text', text: null }] }, '[malformed text, not shown: text: is missing]'],
    [{ content: 'a' }, 'a'],
    [{ content: { type: 'text', text: 'a' } }, 'a'],
    [{ content: null, structuredContent: { a: 1 } }, { a: 1 }],
    [{ content: null }, '[no output]'],
    [{}, '[no output]'],
    [null, '[no output]'],
    ['a', 'a'],
    [[{ type: 'text', text: 'a' }], 'a'],
    [{ rows: [1] }, { rows: [1] }],
    [{ toolResult: { a: 1 } }, { a: 1 }],
    [{ content: [{ type: 'resource_link', uri: 'file:///a', title: null }] }, '[resource file:///a]'],
    [
      { content: [{ type: 'resource', resource: { uri: 'file:///a', text: 'b', blob: null, mimeType: null } }] },
      '[resource file:///a]\nb',
    ],
    [{ content: [{ ...image, mimeType: null }] }, content(file('application/octet-stream', 'AAEC'))],
    [{ content: [{ ...image, data: 'data:image/png;base64,AAEC' }] }, content(file('image/png', 'AAEC'))],
  ])('of an odd form is told as far as it goes: %j', (answer, value) => {
    expect(toToolValue(toCallResult(answer))).toEqual(value);
  });

  it.each([
    [
      '{"content":[{"type":"text","text":"{\\"id\\":725653563933458433}"}],"structuredContent":{"id":725653563933458433}}',
      '{"id":725653563933458433}',
    ],
    [
      '{"content":[{"type":"text","text":"{\\"id\\":725653563933458433}"}],"structuredContent":{"id":725653563933458400}}',
      '"{\\"id\\":725653563933458433}"',
    ],
    [
      '{"content":[{"type":"text","text":"{\\"price\\":1.10}"}],"structuredContent":{"price":1.1}}',
      '"{\\"price\\":1.10}"',
    ],
    ['{"structuredContent":{"b":1.50,"7":1}}', '{"b":1.50,"7":1}'],
  ])('keeps the digits and the order of keys: %s', (answer, value) => {
    expect(JSON.stringify(toToolValue(toCallResult(parseExactly(answer))))).toBe(value);
  });

  it('keeps data as it came, for whoever can store it', () => {
    expect(toCallResult({ content: [image], isError: true })).toEqual({
      isError: true,
      parts: [{ type: 'file', mediaType: 'image/png', base64: 'AAEC' }],
      structured: undefined,
    });
  });
});

describe('the name of a server’s tool', () => {
  it.each([
    ['docs', 'search', 'docs__search'],
    ['docs', 'a.b', expect.stringMatching(/^docs__a_b_[0-9a-f]{8}$/)],
    ['docs', 'x'.repeat(80), expect.stringMatching(/^docs__x{49}_[0-9a-f]{8}$/)],
  ])('of %s, %s', (server, tool, name) => {
    expect(nameForModel(server, tool)).toEqual(name);
  });

  it('is one that providers take, and no two tools of a server share one', () => {
    const server = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,31}$/);
    fc.assert(
      fc.property(server, fc.string({ minLength: 1, maxLength: 90 }), fc.string({ minLength: 1 }), (name, a, b) => {
        expect(nameForModel(name, a)).toMatch(TOOL_NAME);
        expect(nameForModel(name, a) === nameForModel(name, b)).toBe(a === b);
      }),
    );
  });
});

describe('the hash of definitions', () => {
  const tool: PinnedTool = {
    name: 'a',
    description: 'A.',
    inputSchema: { type: 'object', properties: { x: {}, y: {} } },
  };

  it('is the same in whatever order a server lists tools and writes keys', () => {
    const other = { ...tool, name: 'b' };
    const turned: PinnedTool = {
      inputSchema: { properties: { y: {}, x: {} }, type: 'object' },
      description: 'A.',
      name: 'a',
    };
    expect(hashOfTools([other, turned])).toBe(hashOfTools([tool, other]));
  });

  it.each([
    { name: 'b' },
    { description: 'B.' },
    { inputSchema: { type: 'object' as const, properties: { x: { type: 'string' }, y: {} } } },
    { readOnlyHint: true },
    { idempotentHint: true },
  ])('changes with %j', (change) => {
    expect(hashOfTools([{ ...tool, ...change }])).not.toBe(hashOfTools([tool]));
  });
});

it('include and exclude choose among the tools of a server', () => {
  const names = (source: object) =>
    ['a', 'b', 'c'].filter((name) => isIncluded({ mcp: 'docs', ...source }, { name })).join('');
  expect([{}, { include: ['a', 'b'] }, { exclude: ['a'] }, { include: ['a', 'b'], exclude: ['b'] }].map(names)).toEqual(
    ['abc', 'ab', 'bc', 'a'],
  );
});
