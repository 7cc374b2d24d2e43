import { downloadBlobRoute, uploadBlobRoute } from '../../api/blobs.ts';
import { uploadFile } from '../../commands/upload-file.ts';
import { formatId } from '../../domain/ids.ts';
import { isSafeInline, judgeMediaType } from '../../domain/media-type.ts';
import { MAX_BLOB_BYTES } from '../../domain/tunables.ts';
import { readBlob } from '../../store/transcript/blobs.ts';
import { ProblemError } from '../bodies/problem.ts';
import { readUpload } from '../bodies/upload.ts';
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
    const { mediaType, bytes } = await readBlob(deps.db, tenantOf(c), c.req.valid('param').id);
    const isInline = isSafeInline(mediaType);
    return new Response(new Uint8Array(bytes), {
      headers: {
        'content-type': mediaType,
        // The uploader decides on the content, so none of it may run as a page of this origin. No file name: a page
        // that links to the blob knows a better one than the id in the path.
        'content-disposition': isInline ? 'inline' : 'attachment',
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; sandbox",
      },
    });
  });
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
