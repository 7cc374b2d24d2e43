import { createRoute, z } from '@hono/zod-openapi';
import { FORM_BYTES, MAX_BLOB_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { idParams, noQuery } from './fields.ts';
import { BODY_REFUSED, jsonOf, NOT_FOUND, REFUSED, timeBody } from './responses.ts';

const tags = ['blobs'];

const BINARY = { type: 'string', format: 'binary' } as const;

const blobBody = z
  .object({
    id: z.string(),
    mediaType: z.string().openapi({ description: 'Media type by the first bytes of the file, or as it was named.' }),
    sizeBytes: z.int(),
    createdAt: timeBody,
  })
  .openapi('StoredBlob');

export const uploadBlobRoute = createRoute({
  method: 'post',
  path: '/v1/blobs',
  middleware: limitBody(MAX_BLOB_BYTES + FORM_BYTES, 'bytes'),
  operationId: 'uploadBlob',
  tags,
  summary: 'Upload a file for messages to refer to',
  description: `Takes the bytes as they are under their own content type, or a form with one file, at most ${MAX_BLOB_BYTES} bytes. Equal bytes are one blob, under the type that was named last. A blob that no session refers to is removed after a day.`,
  request: {
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/octet-stream': { schema: BINARY },
        'multipart/form-data': { schema: { type: 'object', properties: { file: BINARY }, required: ['file'] } },
      },
    },
  },
  responses: { 201: jsonOf(blobBody, 'The blob.'), ...REFUSED, ...BODY_REFUSED },
});

const MAX_FILENAME_CHARS = 255;

const filenameField = z
  .string()
  .min(1)
  .max(MAX_FILENAME_CHARS)
  .optional()
  .openapi({ description: 'Name under which a browser saves the file.' });

export const downloadBlobRoute = createRoute({
  method: 'get',
  path: '/v1/blobs/{id}',
  operationId: 'downloadBlob',
  tags,
  summary: 'Read a blob',
  description:
    'Serves images and whole outputs of tools, too, to which the transcript refers as `@blob:` and by `outputBlobId`. Answers `ETag`, 304 to `If-None-Match`, and one range of bytes to `Range` and `If-Range`.',
  request: { params: idParams('blob'), query: z.strictObject({ filename: filenameField }) },
  responses: {
    200: { description: 'Bytes of the file.', content: { 'application/octet-stream': { schema: BINARY } } },
    206: { description: 'The range of bytes.', content: { 'application/octet-stream': { schema: BINARY } } },
    304: { description: 'The caller has these bytes already.' },
    416: { description: 'The range begins behind the end; `Content-Range` tells the size.' },
    ...REFUSED,
    ...NOT_FOUND,
  },
});
