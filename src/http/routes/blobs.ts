import { createHash } from 'node:crypto';
import { downloadBlobRoute, uploadBlobRoute } from '../../api/blobs.ts';
import { uploadFile } from '../../commands/upload-file.ts';
import { formatId } from '../../domain/ids.ts';
import { isSafeInline, judgeMediaType, SNIFFED_MEDIA_TYPES } from '../../domain/media-type.ts';
import { MAX_BLOB_BYTES } from '../../domain/tunables.ts';
import { readBlobBytes, readBlobInfo } from '../../store/transcript/blobs.ts';
import { ProblemError } from '../bodies/problem.ts';
import { readUpload } from '../bodies/upload.ts';
import { dispositionOf, namesTag, readByteRange } from '../byte-range.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerBlobRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(uploadBlobRoute, async (c) => {
    const { declared, bytes } = await readUpload(c);
    if (bytes.length > MAX_BLOB_BYTES) {
      throw new ProblemError('payload_too_large', `The file is larger than ${MAX_BLOB_BYTES} bytes`);
    }
    const verdict = judgeMediaType(declared, bytes);
    if (verdict.kind === 'refused') throw new ProblemError('invalid_request', `Invalid body: it ${verdict.why}`);
    const file = { mediaType: verdict.mediaType, bytes, isNamed: declared !== undefined };
    const blob = await uploadFile(deps, tenantOf(c), file);
    const { mediaType, sizeBytes, createdAt } = blob;
    const id = formatId('blob', blob.id);
    const body = { id, mediaType, sizeBytes, createdAt: createdAt.toISOString() };
    return c.json(body, 201, { location: `/v1/blobs/${id}` });
  });

  app.openapi(downloadBlobRoute, async (c) => {
    // The policy of the console's page allows scripts of its origin, and an uploaded file is none.
    if (ACTIVE_PLACES.has(c.req.header('sec-fetch-dest') ?? '')) {
      throw new ProblemError('forbidden', 'A file is no script, style or worker of a page: read it with fetch');
    }
    const { id } = c.req.valid('param');
    const blob = await readBlobInfo(deps.db, tenantOf(c), id);
    const headers = headersOf(blob, c.req.valid('query').filename);
    const { etag } = headers;
    if (namesTag(c.req.header('if-none-match'), etag)) return new Response(null, { status: 304, headers });
    const ifRange = c.req.header('if-range');
    const asked = ifRange === undefined || ifRange === etag ? c.req.header('range') : undefined;
    const range = c.req.method === 'GET' ? readByteRange(asked, blob.sizeBytes) : 'whole';
    if (range === 'unsatisfiable') {
      // The type is that of the bytes, and there are none.
      const { 'content-type': _type, ...others } = headers;
      const refused = { ...others, 'cache-control': 'no-store', 'content-range': `bytes */${blob.sizeBytes}` };
      return new Response(null, { status: 416, headers: refused });
    }
    if (range === 'whole') {
      const whole = { ...headers, 'content-length': `${blob.sizeBytes}` };
      if (c.req.method === 'HEAD') return new Response(null, { headers: whole });
      return new Response(new Uint8Array(await readBlobBytes(deps.db, tenantOf(c), id)), { headers: whole });
    }
    const { start, end } = range;
    const part = {
      ...headers,
      'content-length': `${end - start + 1}`,
      'content-range': `bytes ${start}-${end}/${blob.sizeBytes}`,
    };
    const bytes = await readBlobBytes(deps.db, tenantOf(c), id, range);
    return new Response(new Uint8Array(bytes), { status: 206, headers: part });
  });
}

/** Seconds of a year, for which a browser keeps what never changes. */
const KEPT_S = 31_536_000;

/**
 * Headers of any answer with a blob. A type that the bytes show never changes. Any other one may be named anew, and a
 * browser asks each time, so that a page which would run the file is refused.
 */
function headersOf({ mediaType, sha256 }: Readonly<{ mediaType: string; sha256: Buffer }>, filename?: string) {
  const isFixed = SNIFFED_MEDIA_TYPES.has(mediaType);
  const tag = createHash('sha256').update(sha256).update(mediaType).digest('base64url');
  return {
    'content-type': mediaType,
    // The uploader decides on the content, so none of it may run as a page of this origin. No file name unless it is
    // asked for: a page that links to the blob knows a better one than the id in the path.
    'content-disposition': dispositionOf(isSafeInline(mediaType) ? 'inline' : 'attachment', filename),
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    etag: `"${tag}"`,
    'accept-ranges': 'bytes',
    'cache-control': isFixed ? `private, max-age=${KEPT_S}, immutable` : 'private, no-cache',
    // A cache gives the file only to a request with the same credentials.
    vary: 'Authorization, X-API-Key, Cookie, Origin, Sec-Fetch-Dest',
  };
}

/** Places of a page where a file would act: `sec-fetch-dest` of its request. */
const ACTIVE_PLACES: ReadonlySet<string> = new Set([
  'audioworklet',
  'embed',
  'object',
  'paintworklet',
  'script',
  'serviceworker',
  'sharedworker',
  'style',
  'worker',
  'xslt',
]);
