import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { parseId } from '../../src/domain/ids.ts';
import { MAX_BLOB_BYTES } from '../../src/domain/tunables.ts';
import { newId } from '../../src/platform/new-id.ts';
import { startReconciler } from '../../src/recovery/reconciler.ts';
import { attachBlobs, bytesBlob, putBlob } from '../../src/store/transcript/blobs.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { PNG } from '../support/png.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const blobSchema = z.looseObject({ id: z.string().default('') });

async function upload(body: RequestInit['body'], contentType?: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${api.url}/v1/blobs`, {
    method: 'POST',
    body: body ?? null,
    headers: { ...(contentType !== undefined && { 'content-type': contentType }), ...headers },
  });
  return {
    status: response.status,
    body: blobSchema.parse(await response.json()),
    location: response.headers.get('location'),
  };
}

const download = (id: string, headers: Record<string, string> = {}) => fetch(`${api.url}/v1/blobs/${id}`, { headers });

describe('a blob', () => {
  it('is uploaded as it is, and comes back byte by byte', async () => {
    const { status, body, location } = await upload(PNG, 'image/png');
    expect(status).toBe(201);
    expect(body).toMatchObject({ mediaType: 'image/png', sizeBytes: PNG.length, id: expect.stringMatching(/^blob_/) });
    expect(location).toBe(`/v1/blobs/${body.id}`);
    const response = await download(body.id);
    expect(Buffer.from(await response.arrayBuffer())).toEqual(Buffer.from(PNG));
    expect(response.headers.get('content-type')).toBe('image/png');
    expect(response.headers.get('content-disposition')).toBe('inline');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('is uploaded as a form with one file', async () => {
    const form = new FormData();
    form.append('file', new File([PNG], 'a.png', { type: 'image/png' }));
    expect(await upload(form)).toMatchObject({ status: 201, body: { mediaType: 'image/png', sizeBytes: PNG.length } });
    form.append('other', 'text');
    expect(await upload(form)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(await upload('no form', 'multipart/form-data; boundary=x')).toMatchObject({ status: 400 });
  });

  it('is the same one for the same bytes', async () => {
    const [first, second] = [await upload('same', 'text/plain'), await upload('same', 'text/plain')];
    expect(second.body.id).toBe(first.body.id);
  });

  it('that nobody names is text, also as curl sends it, until somebody does', async () => {
    const said = (mediaType: string) => ({ status: 201, body: { mediaType } });
    expect(await upload('# one', 'application/x-www-form-urlencoded')).toMatchObject(said('text/plain'));
    expect(await upload('# one', 'text/markdown')).toMatchObject(said('text/markdown'));
    const again = await upload('# one', 'application/x-www-form-urlencoded');
    expect(again).toMatchObject(said('text/markdown'));
    expect(await upload('# one', 'text/csv')).toMatchObject(said('text/csv'));
    const response = await download(again.body.id);
    expect(response.headers.get('content-type')).toBe('text/csv');
    await response.body?.cancel();
    expect(await upload(PNG, 'application/x-www-form-urlencoded')).toMatchObject(said('image/png'));
    expect(await upload(PNG, 'text/csv')).toMatchObject(said('image/png'));
  });

  it.each([
    ['<script>alert(1)</script>', 'text/html'],
    ['<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml'],
    ['%PDF-1.7 x', 'application/pdf'],
  ])('that a browser might run is only ever a download: %s', async (bytes, mediaType) => {
    const { body } = await upload(bytes, mediaType);
    const response = await download(body.id);
    expect(response.headers.get('content-type')).toBe(mediaType);
    expect(response.headers.get('content-disposition')).toBe('attachment');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    await response.body?.cancel();
  });

  it.each([
    ['', 'text/plain', 400],
    ['no image', 'image/png', 400],
    ['x', 'nonsense', 400],
  ])('that is %j as %s is refused with %d', async (bytes, mediaType, status) => {
    expect(await upload(bytes, mediaType)).toMatchObject({ status, body: { code: 'invalid_request' } });
  });

  it('may be as large as the limit, and not larger', async () => {
    const bytes = new Uint8Array(MAX_BLOB_BYTES + 1).fill(7);
    expect(await upload(bytes.subarray(1), 'application/octet-stream')).toMatchObject({ status: 201 });
    expect(await upload(bytes, 'application/octet-stream')).toMatchObject({ status: 413 });
    const much = new Uint8Array(MAX_BLOB_BYTES + 100_000);
    expect(await upload(much, 'application/octet-stream')).toMatchObject({ status: 413 });
  });

  it('that nothing refers to is collected after a day, and one that something refers to is not', async () => {
    const put = (text: string) => putBlob(api.db, 'default', bytesBlob(newId(), 'text/plain', Buffer.from(text)));
    const [orphan, again, fresh] = [await put('orphan'), await put('again'), await put('fresh')];
    const sessionId = parseId('session', await api.createSession()) ?? '';
    const kept = bytesBlob(newId(), 'text/plain', Buffer.from('kept'));
    await attachBlobs(api.db, { sessionId }, [kept]);
    const old = [orphan.id, again.id, kept.id];
    await sql`update blobs set created_at = clock_timestamp() - interval '25 hours' where id = any(${old}::uuid[])`.execute(
      api.db,
    );
    // Uploaded once more: counted from now.
    await put('again');
    await using bus = { announce: () => undefined, [Symbol.asyncDispose]: async () => undefined };
    const silent = {
      bus: bus as never,
      log: () => undefined,
      lookAfterChildren: () => undefined,
      stopLeftWork: () => undefined,
    };
    await using reconciler = startReconciler(
      { db: api.db, jobs: {} as never, ...silent, leaseDurationMs: 30_000 },
      1_000_000,
    );
    await reconciler.sweep();
    const ids = await eventually(async () => {
      const rows = await api.db.selectFrom('blobs').select('id').execute();
      const left = rows.map(({ id }) => id);
      return left.includes(orphan.id) ? null : left;
    }, 'the orphan is collected');
    expect(ids).toEqual(expect.arrayContaining([again.id, fresh.id, kept.id]));
  });
});

describe('a blob that is read again', () => {
  it('has a tag, and answers 304 to whoever has it', async () => {
    const { body } = await upload(PNG, 'image/png');
    const first = await download(body.id);
    const etag = first.headers.get('etag') ?? '';
    expect(etag).toMatch(/^"[\w-]{43}"$/);
    expect(first.headers.get('cache-control')).toBe('private, max-age=31536000, immutable');
    expect(first.headers.get('vary')).toContain('Authorization');
    await first.body?.cancel();
    for (const tags of [etag, `"a", W/${etag}`, '*']) {
      const again = await download(body.id, { 'if-none-match': tags });
      expect([tags, again.status, again.headers.get('etag')]).toEqual([tags, 304, etag]);
    }
    expect((await download(body.id, { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it('is asked for each time where its type may be named anew, and then has another tag', async () => {
    const { body } = await upload('a,b', 'text/csv');
    const first = await download(body.id);
    expect(first.headers.get('cache-control')).toBe('private, no-cache');
    await upload('a,b', 'text/markdown');
    const again = await download(body.id, { 'if-none-match': first.headers.get('etag') ?? '' });
    expect([again.status, again.headers.get('content-type')]).toEqual([200, 'text/markdown']);
  });

  it.each([
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=8-', 206, '89', 'bytes 8-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=5-99', 206, '56789', 'bytes 5-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=-0', 416, '', 'bytes */10'],
    ['bytes=4-2', 200, '0123456789', null],
    ['bytes=0-1,3-4', 200, '0123456789', null],
    ['lines=0-1', 200, '0123456789', null],
  ])('answers %s with %d', async (range, status, text, told) => {
    const { body } = await upload('0123456789', 'text/plain');
    const response = await download(body.id, { range });
    expect([response.status, await response.text(), response.headers.get('content-range')]).toEqual([
      status,
      text,
      told,
    ]);
    expect(response.headers.get('accept-ranges')).toBe('bytes');
  });

  it('is sent whole where If-Range names other bytes', async () => {
    const { body } = await upload('0123456789', 'text/plain');
    const etag = (await download(body.id)).headers.get('etag') ?? '';
    const read = async (tag: string) => (await download(body.id, { range: 'bytes=0-1', 'if-range': tag })).text();
    expect([await read(etag), await read('"old"')]).toEqual(['01', '0123456789']);
  });

  it('tells its length to HEAD', async () => {
    const { body } = await upload('0123456789', 'text/plain');
    const response = await fetch(`${api.url}/v1/blobs/${body.id}`, { method: 'HEAD', headers: { range: 'bytes=0-1' } });
    expect([response.status, response.headers.get('content-length')]).toEqual([200, '10']);
  });

  it('has the file name that is asked for', async () => {
    const { body } = await upload('%PDF-1.7 x', 'application/pdf');
    const name = encodeURIComponent('Bericht "für" 100%.pdf');
    const { headers } = await download(`${body.id}?filename=${name}`);
    expect(headers.get('content-disposition')).toBe(
      'attachment; filename="Bericht _f_r_ 100_.pdf"; filename*=UTF-8\'\'Bericht%20%22f%C3%BCr%22%20100%25.pdf',
    );
    expect((await download(`${body.id}?filename=${'x'.repeat(256)}`)).status).toBe(400);
  });
});

describe('a script among the files', () => {
  it('is none of a page of this origin, and is saved where it is opened', async () => {
    const sent = await fetch(`${api.url}/v1/blobs`, {
      method: 'POST',
      body: 'alert(1)',
      headers: { 'content-type': 'text/javascript' },
    });
    const { id } = (await sent.json()) as { id: string };
    const read = (dest: string) => fetch(`${api.url}/v1/blobs/${id}`, { headers: { 'sec-fetch-dest': dest } });
    for (const dest of ['script', 'style', 'worker', 'object'])
      expect([dest, (await read(dest)).status]).toEqual([dest, 403]);
    const { status, headers } = await read('document');
    expect(status).toBe(200);
    expect(headers.get('content-disposition')).toBe('attachment');
    expect(headers.get('content-security-policy')).toContain('sandbox');
  });
});

describe('a blob of another tenant', () => {
  it('does not exist, and the same bytes are another blob', async () => {
    await using own = await startTestApi();
    const [alpha, beta] = [await createTestKey(own.db, 'alpha'), await createTestKey(own.db, 'beta')];
    const send = async (key: typeof alpha) => {
      const response = await fetch(`${own.url}/v1/blobs`, { method: 'POST', body: PNG, headers: key.headers });
      return blobSchema.parse(await response.json()).id;
    };
    const id = await send(alpha);
    expect((await fetch(`${own.url}/v1/blobs/${id}`, { headers: alpha.headers })).status).toBe(200);
    expect((await fetch(`${own.url}/v1/blobs/${id}`, { headers: beta.headers })).status).toBe(404);
    expect(await send(beta)).not.toBe(id);
    const reader = await createTestKey(own.db, 'alpha', ['read']);
    const refused = await fetch(`${own.url}/v1/blobs`, { method: 'POST', body: PNG, headers: reader.headers });
    expect(refused.status).toBe(403);
    expect(createHash('sha256').update(PNG).digest('hex')).toBe(
      Buffer.from((await own.db.selectFrom('blobs').select('sha256').executeTakeFirstOrThrow()).sha256).toString('hex'),
    );
  });
});
