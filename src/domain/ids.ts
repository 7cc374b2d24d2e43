/**
 * UUIDv7 in the database (RFC 9562 §5.7), `<prefix>_<32 hex digits>` outside. Only the ids of one process sort by age;
 * the order of things is in sequences.
 */
export const ID_PREFIXES = {
  session: 'ses',
  run: 'run',
  message: 'msg',
  blob: 'blob',
  key: 'key',
  webhook: 'whk',
  delivery: 'dlv',
  schedule: 'sch',
} as const;

export type IdKind = keyof typeof ID_PREFIXES;

/** `018f…-…` → `ses_018f…` */
export function formatId(kind: IdKind, uuid: string): string {
  return `${ID_PREFIXES[kind]}_${uuid.replaceAll('-', '')}`;
}

/** `ses_018f…` → `018f…-…`; null: not an id of that kind. */
export function parseId(kind: IdKind, id: string): string | null {
  const match = /^([a-z]+)_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(id);
  if (match === null || match[1] !== ID_PREFIXES[kind]) return null;
  return match.slice(2).join('-');
}

/** `018f…-…` and 2 → `call_018f…_2`: the call key, the same for every repetition. Providers may reuse their ids. */
export function formatCallId(messageId: string, partIndex: number): string {
  return `call_${messageId.replaceAll('-', '')}_${partIndex}`;
}

/** The UUID of the message and the index among its parts; null: not the id of a call. */
export function parseCallId(id: string): Readonly<{ messageId: string; index: number }> | null {
  const match = /^call_([0-9a-f]{32})_(0|[1-9][0-9]{0,5})$/.exec(id);
  const messageId = parseId('message', `${ID_PREFIXES.message}_${match?.[1] ?? ''}`);
  return messageId === null ? null : { messageId, index: Number(match?.[2]) };
}

/** The part of a UUIDv7 that sorts. `count` is of the ids of one process within a millisecond, in 12 bits. */
export type IdMoment = Readonly<{ ms: number; count: number }>;

const MAX_COUNT = 0xfff;

/**
 * The moment of the id after one of `last` (RFC 9562 §6.2, method 1): always later, also when the clock stands still or
 * goes back. Beyond 2 048 to 4 096 ids in a millisecond it is ahead of the clock.
 * @param nowMs milliseconds since the Unix epoch
 * @param random at least 2 random bytes, where the count of a millisecond begins
 */
export function nextIdMoment(last: IdMoment, nowMs: number, random: Uint8Array): IdMoment {
  if (nowMs <= last.ms && last.count < MAX_COUNT) return { ms: last.ms, count: last.count + 1 };
  // The highest bit stays free, so that no millisecond has few left.
  return { ms: Math.max(nowMs, last.ms + 1), count: (((random[0] ?? 0) << 8) | (random[1] ?? 0)) & (MAX_COUNT >> 1) };
}

/**
 * @param random at least 10 random bytes, of which the last 8 are used
 * @throws RangeError for fewer
 */
export function uuidV7({ ms, count }: IdMoment, random: Uint8Array): string {
  if (random.length < 10) throw new RangeError('uuidV7 needs 10 random bytes');
  const time = ms.toString(16).padStart(12, '0');
  const variant = 0x80 | ((random[2] ?? 0) & 0x3f);
  let node = '';
  for (let index = 4; index < 10; index++) node += hexOf(random[index]);
  const order = `7${count.toString(16).padStart(3, '0')}`;
  return `${time.slice(0, 8)}-${time.slice(8)}-${order}-${hexOf(variant)}${hexOf(random[3])}-${node}`;
}

/** A step makes ids by the dozen, and text made byte by byte was most of their time. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

const hexOf = (byte = 0): string => HEX[byte] ?? '';
