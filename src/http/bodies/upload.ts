import type { Context } from 'hono';
import { bareMediaType, namedMediaType } from '../../domain/media-type.ts';
import { FORM_BYTES } from '../../domain/tunables.ts';
import type { HttpEnv } from '../http-env.ts';
import { ProblemError } from './problem.ts';

/** `declared`: the media type that the request names; undefined if it names none. */
export type Upload = Readonly<{ declared: string | undefined; bytes: Buffer }>;

/**
 * The file in a request: the body as it is, or the only field of a form.
 * @throws ProblemError `invalid_request` for an invalid form, or one without exactly one file
 */
export async function readUpload(c: Context<HttpEnv>): Promise<Upload> {
  const contentType = c.req.header('content-type');
  const bytes = c.get('body')?.take() ?? Buffer.alloc(0);
  if (contentType === undefined || bareMediaType(contentType) !== 'multipart/form-data') {
    return { declared: namedMediaType(contentType), bytes };
  }
  const { envelope, content } = takeApart(bytes, boundaryOf(contentType));
  const form = await new Response(envelope, { headers: { 'content-type': contentType } })
    .formData()
    .catch((cause: unknown) => {
      throw new ProblemError('invalid_request', 'The body is not a valid form', { cause });
    });
  const [file, ...others] = [...form.values()];
  if (!(file instanceof File) || others.length > 0) throw noSingleFile();
  return { declared: file.type === '' ? undefined : namedMediaType(file.type), bytes: content };
}

function boundaryOf(contentType: string): string {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]{1,70})"|([^;\s]{1,70}))/i.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  if (boundary === undefined) throw new ProblemError('invalid_request', 'The form names no boundary');
  return boundary;
}

const END_OF_HEADERS = '\r\n\r\n';

/**
 * Splits a form of one field into the field's content and the rest, so that the parser need not go through the content.
 * https://www.rfc-editor.org/rfc/rfc7578
 */
function takeApart(form: Buffer, boundary: string): Readonly<{ envelope: Uint8Array<ArrayBuffer>; content: Buffer }> {
  const delimiter = `\r\n--${boundary}`;
  const headers = form.indexOf(END_OF_HEADERS);
  const start = headers + END_OF_HEADERS.length;
  const end = form.indexOf(delimiter, start);
  if (headers === -1 || end === -1) throw new ProblemError('invalid_request', 'The body is not a valid form');
  if (form.indexOf(delimiter, end + delimiter.length) !== -1) throw noSingleFile();
  const [head, rest] = [form.subarray(0, start), form.subarray(end)];
  if (head.length + rest.length > FORM_BYTES) {
    throw new ProblemError('invalid_request', `The form has more than ${FORM_BYTES} bytes around its file`);
  }
  return { envelope: new Uint8Array(Buffer.concat([head, rest])), content: form.subarray(start, end) };
}

const noSingleFile = (): ProblemError =>
  new ProblemError('invalid_request', 'The form must have one file and nothing else');
