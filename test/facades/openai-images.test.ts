import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { describe, expect, test } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { assistant, conversationSuite, user } from './openai-conversations-fixture.ts';

const { service, nextModel, sessionsOf, ask } = conversationSuite();

const DATA_URL = `data:image/png;base64,${PNG_BASE64}`;

describe('a conversation with images', () => {
  const shows = (url: string, text = 'What is this?'): ChatCompletionMessageParam => ({
    role: 'user',
    content: [
      { type: 'text', text },
      { type: 'image_url', image_url: { url } },
    ],
  });
  const filesOf = async (model: string) => {
    const { db } = service().deps;
    const [session] = await sessionsOf(model);
    const messages = await listMessages(db, 'default', session?.id ?? '', { afterSeq: 0, limit: 100 });
    return messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'file' ? [part] : [])));
  };

  test('keeps them as blobs and goes on in its session; another image is another conversation', async () => {
    const model = nextModel([{ text: 'A square.' }, { text: 'Red.' }]);
    expect(await ask(model, [shows(DATA_URL)])).toBe('A square.');
    expect(await filesOf(model)).toMatchObject([{ mediaType: 'image/png', url: expect.stringMatching(/^@blob:/) }]);
    expect(await ask(model, [shows(DATA_URL), assistant('A square.'), user('Which colour?')])).toBe('Red.');
    expect(await sessionsOf(model)).toHaveLength(1);
    const another = shows('https://example.com/a.png');
    await ask(model, [another, assistant('A square.'), user('Which colour?')]);
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('imports those of a conversation that nobody knows', async () => {
    const model = nextModel([{ text: 'Red.' }]);
    const remote = shows('https://example.com/photo.JPG?size=2');
    await ask(model, [shows(DATA_URL), assistant('A square.'), remote]);
    expect(await filesOf(model)).toMatchObject([
      { mediaType: 'image/png', url: expect.stringMatching(/^@blob:/) },
      { mediaType: 'image/jpeg', url: 'https://example.com/photo.JPG?size=2' },
    ]);
  });

  test('is refused with something that is none', async () => {
    const model = nextModel([{ text: 'Red.' }]);
    for (const url of ['data:image/png;base64,AAEC', 'https://example.com/photo', 'file:///etc/passwd']) {
      await expect(ask(model, [shows(url)])).rejects.toThrow(OpenAI.BadRequestError);
    }
    expect(await sessionsOf(model)).toEqual([]);
  });
});
