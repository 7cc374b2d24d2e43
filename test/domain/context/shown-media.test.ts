import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { estimateMessage } from '../../../src/domain/context/meter/message-tokens.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import {
  blobUrlsOf,
  MAX_REQUEST_MEDIA_BYTES,
  MODEL_PROTOCOLS,
  mediaSupportOf,
  PROTOCOL_MEDIA,
  showMedia,
} from '../../../src/domain/model/shown-media.ts';
import type { ViewMessage, ViewPart } from '../../../src/domain/transcript/message.ts';

const ALL = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf', 'audio/wav', 'application/zip'];
const blob = (n: number): string => `@blob:blob_${String(n).padStart(32, '0')}`;
const file = (mediaType: string, url = blob(1), sizeBytes = 10) => ({
  type: 'file' as const,
  mediaType,
  url,
  sizeBytes,
});
const user = (...parts: ViewPart[]): ViewMessage => ({ id: 'u', seq: 1, role: 'user', model: null, parts });
const call = (...value: ReturnType<typeof file>[]): ViewPart => ({
  type: 'tool',
  toolCallId: 'c',
  toolName: 't',
  input: {},
  state: 'completed',
  output: { type: 'content', value },
});
const assistant = (...parts: ViewPart[]): ViewMessage => ({ id: 'a', seq: 2, role: 'assistant', model: 'm/m', parts });

const IMAGES = ['image/gif', 'image/jpeg', 'image/png', 'image/webp'];
const PDF = ['application/pdf', ...IMAGES];

/** The media types that each protocol sends from the user, from tools and by URL, for a model that takes all types. */
const ROWS = [
  ['openai-responses', PDF, PDF, PDF],
  ['openai-chat', PDF, PDF, IMAGES],
  ['openai-compatible', IMAGES, IMAGES, []],
  ['anthropic-messages', PDF, PDF, PDF],
] as const;

describe('a model is shown', () => {
  it.each(ROWS)('over %s from the user %j, from tools %j, by URL %j', (protocol, ofUser, ofTools, fetched) => {
    const support = mediaSupportOf(protocol, ALL);
    const shown = (message: ViewMessage): string[] =>
      showMedia([message], support).view[0]?.parts.some((part) => JSON.stringify(part).includes('"file"'))
        ? ['yes']
        : [];
    const taken = (make: (type: string) => ViewMessage) =>
      ALL.filter((type) => shown(make(type)).length > 0).toSorted();
    expect(taken((type) => user(file(type)))).toEqual(ofUser);
    expect(taken((type) => assistant(call(file(type))))).toEqual(ofTools);
    expect(taken((type) => user(file(type, 'https://example.com/x')))).toEqual(fetched);
  });

  it('by every protocol that there is', () => {
    expect(ROWS.map(([protocol]) => protocol)).toEqual([...MODEL_PROTOCOLS]);
    expect(Object.keys(PROTOCOL_MEDIA)).toEqual([...MODEL_PROTOCOLS]);
  });

  it.each(
    [['image/png'], ['image/png', 'image/jpeg', 'image/gif', 'image/webp'], [...ALL], []].map(
      (types) => [types] as const,
    ),
  )('for a model that takes %j nothing else', (mediaTypes) => {
    for (const protocol of MODEL_PROTOCOLS) {
      const { view, unsupported } = showMedia(
        [user(...ALL.map((type) => file(type)))],
        mediaSupportOf(protocol, mediaTypes),
      );
      const kept = view.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'file' ? [part.mediaType] : [])));
      expect(kept).toEqual(mediaTypes.filter((type) => PROTOCOL_MEDIA[protocol].user.includes(type)));
      expect(unsupported).toEqual(ALL.filter((type) => !kept.includes(type)).toSorted());
    }
  });
});

describe('a text file of the user', () => {
  const none = mediaSupportOf('openai-chat', []);
  const textOf = (part: ReturnType<typeof file>, bytes: string) => {
    const view = [user(part)];
    const shown = showMedia(view, none);
    const media = new Map([[part.url, Buffer.from(bytes).toString('base64')]]);
    return { ...shown, request: JSON.stringify(toModelMessages(shown.view, { model: 'm/m', media })) };
  };

  it.each(['text/markdown', 'TEXT/CSV', 'application/json', 'application/ld+json'])(
    'is read by any model: %s',
    (type) => {
      const { request, unsupported } = textOf(file(type), 'Grüße: "1"');
      expect(request).toContain('Grüße: \\"1\\"');
      expect(request).toContain(`[Attached ${type}: unnamed]`);
      expect(unsupported).toEqual([]);
      const count = (text: string) => text.length;
      const long = { ...file(type), sizeBytes: 90_000 };
      expect(estimateMessage(user(long), count).files).toBeGreaterThanOrEqual(30_000);
    },
  );

  it('is named only, where it is long or somewhere else; one of a tool, always', () => {
    for (const part of [file('text/csv', blob(1), 131_073), file('text/csv', 'https://example.com/a.csv')]) {
      expect(textOf(part, 'secret')).toMatchObject({ unsupported: ['text/csv'] });
      expect(textOf(part, 'secret').request).not.toContain('secret');
    }
    expect(showMedia([assistant(call(file('text/csv')))], none).unsupported).toEqual(['text/csv']);
  });
});

const all = mediaSupportOf('openai-responses', ALL);

describe('the files of a view', () => {
  it('that begin a queued message leave its number to the text in their place', () => {
    const first = { ...file('image/png'), queuedNo: 2 };
    const { view } = showMedia([user(first)], mediaSupportOf('anthropic-messages', []));
    expect(view[0]?.parts).toMatchObject([{ type: 'text', queuedNo: 2 }]);
  });

  it('are as many as a request may carry, the newest first, and none of the others is called unsupported', () => {
    const half = Math.ceil(MAX_REQUEST_MEDIA_BYTES / 2);
    const parts = [1, 2, 3].map((n) => file('image/png', blob(n), half - n));
    const { view, unsupported } = showMedia([user(...parts.slice(0, 2)), assistant(call(...parts.slice(2)))], all);
    expect(blobUrlsOf(view)).toEqual(new Set([blob(3), blob(2)]));
    expect(view[0]?.parts[0]).toEqual({
      type: 'text',
      text: '[Attached image/png: unnamed, no longer shown; read_tool_output shows it again, id file_1_0]',
    });
    expect(unsupported).toEqual([]);
  });

  it('that the context layer has taken out are no matter', () => {
    const stripped: ViewPart = { ...file('audio/wav'), marks: { mediaStripped: true } };
    const cleared: ViewPart = { ...call(file('audio/wav')), marks: { pruned: true } };
    const view = [user(stripped), assistant(cleared)];
    expect(showMedia(view, all)).toEqual({ view, unsupported: [] });
    expect(blobUrlsOf(view)).toEqual(new Set());
  });

  it('leave a view without any as it is, and are decided once and for all', () => {
    const plain = [user({ type: 'text', text: 'x' })];
    expect(showMedia(plain, all).view).toBe(plain);
    const part = fc.record({ type: fc.constantFrom(...ALL), n: fc.nat(5), size: fc.nat(MAX_REQUEST_MEDIA_BYTES) });
    fc.assert(
      fc.property(fc.array(part), fc.array(part), fc.constantFrom(...MODEL_PROTOCOLS), (own, tool, protocol) => {
        const files = (list: typeof own) => list.map(({ type, n, size }) => file(type, blob(n), size + 1));
        const view = [user(...files(own)), assistant(...files(tool).map((item) => call(item)))];
        const support = mediaSupportOf(protocol, ALL);
        const once = showMedia(view, support).view;
        expect(showMedia(once, support)).toEqual({ view: once, unsupported: [] });
        expect(once.map(({ parts }) => parts.length)).toEqual(view.map(({ parts }) => parts.length));
      }),
    );
  });
});
