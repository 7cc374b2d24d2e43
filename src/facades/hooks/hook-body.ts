import { BatonError } from '../../domain/errors.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { createJsonGauge } from '../../domain/json-bounds.ts';
import { tooManyValues } from '../../http/bodies/json-excess.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { isJsonType } from '../../http/middleware/bounded-body.ts';
import { decodeText } from '../../http/middleware/decoded-body.ts';

const FORM_TYPE = 'application/x-www-form-urlencoded';

/**
 * The value that a sender tells: the body, or the field `payload` of a form, which is what GitHub sends unless it is told
 * otherwise.
 * @throws ProblemError `unsupported_media_type`, `payload_too_large`; BatonError `invalid_request` for what is not JSON
 */
export async function readHookBody(bytes: Buffer, contentType = ''): Promise<unknown> {
  const type = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
  if (type === FORM_TYPE) return readForm(await decodeText(bytes));
  if (type !== '' && !isJsonType(type)) {
    const detail = `The body must be application/json, or ${FORM_TYPE} with JSON in its field payload: choose one of them at the sender, which sends ${type}`;
    throw new ProblemError('unsupported_media_type', detail);
  }
  refuseExcess(bytes);
  return parse(await decodeText(bytes), 'body');
}

/** Only the one field is decoded: a form could have a million others. */
function readForm(text: string): unknown {
  const field = 'body.payload';
  const encoded = /(?:^|&)payload=([^&]*)/.exec(text)?.[1];
  if (encoded === undefined) {
    throw new BatonError('invalid_request', 'missing: a form is taken if it has JSON in this field', { field });
  }
  const payload = decodeField(encoded, field);
  refuseExcess(Buffer.from(payload));
  return parse(payload.replace(/^\uFEFF/, ''), field);
}

function decodeField(encoded: string, field: string): string {
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch (cause) {
    throw new BatonError('invalid_request', 'not percent-encoded UTF-8', { field, cause });
  }
}

function refuseExcess(bytes: Buffer): void {
  const excess = createJsonGauge().take(bytes);
  if (excess !== null) throw tooManyValues(excess);
}

function parse(text: string, field: string): unknown {
  try {
    return parseExactly(text);
  } catch (cause) {
    throw new BatonError('invalid_request', 'not valid JSON', { field, cause });
  }
}
