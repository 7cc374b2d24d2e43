/** `type/subtype` without parameters (RFC 6838 §4.2). */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/;

/** The type of unknown content. */
const ANY_BYTES = 'application/octet-stream';
/** curl's default for an upload. It says nothing of the content either. */
const ANY_UPLOAD = 'application/x-www-form-urlencoded';

type Magic = Readonly<{ mediaType: string; at: number; bytes: string; also?: Readonly<{ at: number; bytes: string }> }>;

/** The first bytes of files by type (https://mimesniff.spec.whatwg.org), as Latin-1. */
const MAGIC: readonly Magic[] = [
  { mediaType: 'image/png', at: 0, bytes: '\x89PNG\r\n\x1a\n' },
  { mediaType: 'image/jpeg', at: 0, bytes: '\xff\xd8\xff' },
  { mediaType: 'image/gif', at: 0, bytes: 'GIF87a' },
  { mediaType: 'image/gif', at: 0, bytes: 'GIF89a' },
  { mediaType: 'image/webp', at: 0, bytes: 'RIFF', also: { at: 8, bytes: 'WEBPVP' } },
  { mediaType: 'application/pdf', at: 0, bytes: '%PDF-' },
  { mediaType: 'audio/wav', at: 0, bytes: 'RIFF', also: { at: 8, bytes: 'WAVE' } },
];

/** Media types that are sniffed from the bytes. A declared name alone is not believed for these. */
export const SNIFFED_MEDIA_TYPES: ReadonlySet<string> = new Set(MAGIC.map(({ mediaType }) => mediaType));

/** The media type by the first bytes; null: not recognized. */
export function sniffMediaType(bytes: Uint8Array): string | null {
  const has = ({ at, bytes: text }: Pick<Magic, 'at' | 'bytes'>): boolean =>
    [...text].every((char, index) => bytes[at + index] === char.charCodeAt(0));
  return MAGIC.find((magic) => has(magic) && (magic.also === undefined || has(magic.also)))?.mediaType ?? null;
}

/** A media type in lower case without its parameters; null: not a media type. */
export function bareMediaType(text: string): string | null {
  const bare = text.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return MEDIA_TYPE.test(bare) ? bare : null;
}

export type MediaTypeVerdict = Readonly<{ kind: 'taken'; mediaType: string } | RefusedFile>;

/** `why` continues a sentence about the file, such as "must not be empty". */
export type RefusedFile = Readonly<{ kind: 'refused'; why: string }>;

/**
 * The media type of a blob: sniffed from its bytes, else as declared, else text or unknown. Unrecognized bytes with a
 * declared type of `SNIFFED_MEDIA_TYPES` are refused, because a provider would refuse the whole request.
 * @param declared by the caller; undefined: none
 */
export function judgeMediaType(declared: string | undefined, bytes: Uint8Array): MediaTypeVerdict {
  if (bytes.length === 0) return { kind: 'refused', why: 'must not be empty' };
  const named = declared === undefined ? ANY_BYTES : bareMediaType(declared);
  if (named === null) return { kind: 'refused', why: 'is not a media type' };
  const sniffed = sniffMediaType(bytes);
  if (sniffed !== null) return { kind: 'taken', mediaType: sniffed };
  if (SNIFFED_MEDIA_TYPES.has(named)) return { kind: 'refused', why: `is not ${named}, whatever it says` };
  if (named !== ANY_BYTES) return { kind: 'taken', mediaType: named };
  return { kind: 'taken', mediaType: isText(bytes) ? 'text/plain' : ANY_BYTES };
}

/** The media type that an upload declares; undefined: none, or only the client's default. */
export function namedMediaType(contentType: string | undefined): string | undefined {
  const bare = contentType === undefined ? undefined : bareMediaType(contentType);
  return bare === ANY_BYTES || bare === ANY_UPLOAD ? undefined : contentType;
}

/** A kept blob's media type in a message: the sniffed one, else as `named` (empty: none), else as `kept`. */
export function renameMediaType(named: string, kept: string): MediaTypeVerdict {
  if (named === '' || named === ANY_BYTES || SNIFFED_MEDIA_TYPES.has(kept)) return { kind: 'taken', mediaType: kept };
  return SNIFFED_MEDIA_TYPES.has(named)
    ? { kind: 'refused', why: `is not ${named}, whatever it says` }
    : { kind: 'taken', mediaType: named };
}

function isText(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\u0000');
  } catch {
    return false;
  }
}

/** Raster images: a browser shows them and runs nothing. */
const SAFE_INLINE: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Whether a browser may show it in place. All other types (HTML, SVG, PDF) are only downloaded. */
export const isSafeInline = (mediaType: string): boolean => SAFE_INLINE.has(mediaType);
