import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toUiMessages } from '../../src/facades/ui/transcript.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
let blobId: string;
beforeAll(async () => {
  api = await startTestApi();
  const response = await fetch(`${api.url}/v1/blobs`, { method: 'POST', body: PNG });
  blobId = ((await response.json()) as { id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

/** Sends a message with this part, and reads the part back from the queue as it is stored. */
async function stored(part: object): Promise<unknown> {
  const session = await api.createSession();
  const sent = await api.call('POST', `/v1/sessions/${session}/messages`, { content: [part] });
  expect(sent.status).toBe(202);
  const [message] = (await api.call('GET', `/v1/sessions/${session}/queue`)).body['messages'] as {
    content: unknown[];
  }[];
  return message?.content[0];
}

describe('a file in a message', () => {
  it.each([
    ['its bytes', { data: PNG_BASE64 }],
    ['its bytes under a wrong name', { data: PNG_BASE64, mediaType: 'text/html' }],
    ['a data URL', { url: `data:image/png;base64,${PNG_BASE64}` }],
  ])('is the blob of %s', async (_what, named) => {
    const kept = { type: 'file', mediaType: 'image/png', url: `@blob:${blobId}`, sizeBytes: PNG.length };
    expect(await stored({ type: 'file', ...named })).toEqual(kept);
    expect(await stored({ type: 'image', ...named, filename: 'a.png' })).toEqual({ ...kept, filename: 'a.png' });
  });

  it('may name a blob in every way in which one is named to somebody', async () => {
    const kept = { type: 'file', mediaType: 'image/png', url: `@blob:${blobId}`, sizeBytes: PNG.length };
    for (const named of [{ blobId }, { url: `@blob:${blobId}` }, { url: `/v1/blobs/${blobId}` }]) {
      expect(await stored({ type: 'file', ...named })).toEqual(kept);
    }
  });

  it('is a blob of the type that the part names, unless its bytes tell', async () => {
    const response = await fetch(`${api.url}/v1/blobs`, { method: 'POST', body: '# Notes' });
    const { id, mediaType } = (await response.json()) as { id: string; mediaType: string };
    expect(mediaType).toBe('text/plain');
    const typeOf = async (part: object) =>
      ((await stored({ type: 'file', ...part })) as { mediaType: string }).mediaType;
    expect(await typeOf({ blobId: id, mediaType: 'text/markdown' })).toBe('text/markdown');
    expect(await typeOf({ url: `/v1/blobs/${id}`, mediaType: 'Text/CSV; header=present' })).toBe('text/csv');
    expect(await typeOf({ blobId: id })).toBe('text/plain');
    expect(await typeOf({ blobId: id, mediaType: 'application/octet-stream' })).toBe('text/plain');
    expect(await typeOf({ blobId, mediaType: 'text/markdown' })).toBe('image/png');
    const session = await api.createSession();
    const content = [{ type: 'file', blobId: id, mediaType: 'image/png' }];
    const refused = await api.call('POST', `/v1/sessions/${session}/messages`, { content });
    expect(refused).toMatchObject({ status: 400, body: { detail: 'content.0: is not image/png, whatever it says' } });
  });

  it('is in a chat what a browser can load, and the chat can send it again', async () => {
    const kept = { type: 'file' as const, mediaType: 'image/png', url: `@blob:${blobId}`, sizeBytes: PNG.length };
    const message = { id: '0199c0ff-ee00-7000-8000-00000000000a', role: 'user' as const, runId: null, parts: [kept] };
    const [shown] = toUiMessages([message]);
    const part = { type: 'file', mediaType: 'image/png', url: `/v1/blobs/${blobId}` };
    expect(shown?.parts).toEqual([part]);
    expect(await stored(part)).toEqual(kept);
  });

  it('is what the provider fetches where it is a URL elsewhere', async () => {
    const remote = { type: 'file', mediaType: 'image/png', url: 'https://example.com/a.png' };
    expect(await stored(remote)).toEqual(remote);
  });
});
