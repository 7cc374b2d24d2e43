import type { Context, MiddlewareHandler } from 'hono';
import type { ExpectedBody } from '../../api/body-limit.ts';
import { createJsonGauge, type JsonGauge } from '../../domain/json-bounds.ts';
import { tooManyValues } from '../bodies/json-excess.ts';
import { ProblemError } from '../bodies/problem.ts';
import { collectBytes } from '../body-bytes.ts';
import type { HttpEnv } from '../http-env.ts';
import type { BodyRoom, Intake, Sender } from '../intake.ts';
import type { ReadBody } from '../read-body.ts';
import { expectedBody } from './body-limit.ts';
import { isHeldOpen } from './held-open.ts';
import { networkOf } from './wrong-keys.ts';

/**
 * Reads the body before the route, up to the route's limit, whatever `content-length` says, and if the process has room
 * for it. A request without a route is left unread. JSON is gauged as it arrives: a body with too many values is refused
 * before it is parsed.
 *
 * A body has its room until the request is answered.
 * @throws ProblemError `payload_too_large`, `intake_full`; `unsupported_media_type` for one that is compressed;
 * `invalid_request` when it has too many levels
 */
export function boundedBody(intake: Intake): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
    const expected = expectedBody(c);
    if (expected === null) return next();
    refuseCompressed(c);
    const body = await readBody(c, intake, expected);
    c.set('body', body);
    const { closed } = c.env ?? {};
    // What an answer was asked for may be in memory as long as it is held open.
    const isKept = closed !== undefined && isHeldOpen(c);
    if (isKept) closed.addEventListener('abort', body.release, { once: true });
    try {
      await next();
    } finally {
      if (!isKept || closed.aborted) body.release();
    }
  };
}

/** Compressed bodies could be many times as large as they arrive. `Accept-Encoding` says so (RFC 9110 §15.5.16). */
function refuseCompressed(c: Context<HttpEnv>): void {
  const encoding = c.req.header('content-encoding')?.trim() ?? '';
  if (encoding === '' || encoding.toLowerCase() === 'identity') return;
  const detail = `The body is compressed (${encoding}): send it as it is, without Content-Encoding`;
  throw new ProblemError('unsupported_media_type', detail, { headers: { 'accept-encoding': 'identity' } });
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

async function readBody(c: Context<HttpEnv>, intake: Intake, { maxBytes, form }: ExpectedBody): Promise<ReadBody> {
  const length = c.req.header('content-length');
  const declared = length === undefined ? null : Number(length);
  if (declared !== null && declared > maxBytes) throw tooLarge(maxBytes);
  let reader: Reader | undefined;
  let room: BodyRoom | null = null;
  let hasGivenWay = false;
  const giveWay = (): void => {
    hasGivenWay = true;
    // Ends the read that waits. The stream is not cancelled: that would cut the connection before the answer.
    reader?.releaseLock();
  };
  // A request without a body takes none: one that stops a run, say.
  const takeRoom = (): BodyRoom => {
    room ??= intake.admit(senderOf(c), declared ?? 0, giveWay);
    return room;
  };
  try {
    if (declared !== null && declared > 0) takeRoom();
    reader = declared === 0 ? undefined : c.req.raw.body?.getReader();
    const isJson = form === 'text' && isJsonType(c.req.header('content-type'));
    const bytes = await collect(reader, { maxBytes, declared, takeRoom, gauge: isJson ? createJsonGauge() : null });
    return withRoom(bytes, form, room);
  } catch (error) {
    release(room);
    throw hasGivenWay ? new StalledBody(error) : error;
  } finally {
    reader?.releaseLock();
  }
}

const release = (room: BodyRoom | null): void => room?.release();

function withRoom(bytes: Buffer, form: ExpectedBody['form'], room: BodyRoom | null): ReadBody {
  room?.complete();
  let left = bytes;
  return {
    form,
    take() {
      const bodyBytes = left;
      left = Buffer.alloc(0);
      return bodyBytes;
    },
    moveTo: (tenantId) => room?.moveTo({ kind: 'tenant', id: tenantId }),
    release: () => release(room),
  };
}

type Bounds = Readonly<{
  maxBytes: number;
  declared: number | null;
  takeRoom: () => BodyRoom;
  gauge: JsonGauge | null;
}>;

async function collect(reader: Reader | undefined, bounds: Bounds): Promise<Buffer> {
  const { maxBytes, declared, takeRoom, gauge } = bounds;
  const bytes = collectBytes(declared);
  let excess: ReturnType<JsonGauge['take']> = null;
  let size = 0;
  for (;;) {
    const { value } = (await reader?.read()) ?? {};
    if (value === undefined) break;
    size += value.length;
    if (size > maxBytes) throw tooLarge(maxBytes);
    const room = takeRoom();
    room.arrived(value.length);
    excess ??= gauge?.take(value) ?? null;
    if (excess !== null) continue;
    room.grow(bytes.sizeWith(value.length));
    bytes.add(value);
  }
  // Thrown after the last chunk: most clients read no answer while they send.
  if (excess !== null) throw tooManyValues(excess);
  return bytes.whole();
}

function senderOf(c: Context<HttpEnv>): Sender {
  const tenantId = c.get('caller')?.tenantId;
  if (tenantId !== undefined) return { kind: 'tenant', id: tenantId };
  return { kind: 'stranger', network: networkOf(c.env?.remoteAddress ?? '') };
}

export const isJsonType = (contentType: string | undefined): boolean => /json/i.test(contentType ?? '');

function tooLarge(maxBytes: number): ProblemError {
  // No `connection: close`: Node would cut the connection along with the answer. Without it Node reads on for a moment,
  // so that a client that still writes can read its answer, and cuts then.
  return new ProblemError('payload_too_large', `The body is larger than ${maxBytes} bytes`);
}

/** The body has stalled and has given its room to others. */
export class StalledBody extends ProblemError {
  constructor(cause: unknown) {
    const detail = 'The body came so slowly that others were taken in its place: send it again in a moment';
    super('intake_full', detail, { headers: { 'retry-after': '1' }, cause });
  }
}
