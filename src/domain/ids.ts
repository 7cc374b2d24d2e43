/** UUIDv7 in the database (RFC 9562 §5.7), `<prefix>_<32 hex digits>` outside. Ids give no order; sequences do. */
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

/**
 * @param nowMs milliseconds since the Unix epoch
 * @param random at least 10 random bytes
 * @throws RangeError for fewer
 */
export function uuidV7(nowMs: number, random: Uint8Array): string {
  if (random.length < 10) throw new RangeError('uuidV7 needs 10 random bytes');
  const bytes = new Uint8Array(16);
  let rest = nowMs;
  for (let index = 5; index >= 0; index--) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
