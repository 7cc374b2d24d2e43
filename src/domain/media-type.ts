/** `type/subtype`, without parameters (RFC 6838 §4.2). */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/;

/** Says nothing of what something is. */
const ANY_BYTES = 'application/octet-stream';
/** What curl sends with a file unless it is told otherwise: says nothing either. */
const ANY_UPLOAD = 'application/x-www-form-urlencoded';

type Magic = Readonly<{ mediaType: string; at: number; bytes: string; also?: Readonly<{ at: number; bytes: string }> }>;

/** How files of these types begin (https://mimesniff.spec.whatwg.org), as Latin-1. */
const MAGIC: readonly Magic[] = [
  { mediaType: 'image/png', at: 0, bytes: '\x89PNG\r\n\x1a\n' },
  { mediaType: 'image/jpeg', at: 0, bytes: '\xff\xd8\xff' },
  { mediaType: 'image/gif', at: 0, bytes: 'GIF87a' },
  { mediaType: 'image/gif', at: 0, bytes: 'GIF89a' },
  { mediaType: 'image/webp', at: 0, bytes: 'RIFF', also: { at: 8, bytes: 'WEBPVP' } },
  { mediaType: 'application/pdf', at: 0, bytes: '%PDF-' },
  { mediaType: 'audio/wav', at: 0, bytes: 'RIFF', also: { at: 8, bytes: 'WAVE' } },
];

/** Media types that are told by how their files begin: a name alone is not believed for these. */
export const SNIFFED_MEDIA_TYPES: ReadonlySet<string> = new Set(MAGIC.map(({ mediaType }) => mediaType));

/** What a file is by how it begins; null for what is not told that way. */
export function sniffMediaType(bytes: Uint8Array): string | null {
  const has = ({ at, bytes: text }: Pick<Magic, 'at' | 'bytes'>): boolean =>
    [...text].every((char, index) => bytes[at + index] === char.charCodeAt(0));
  return MAGIC.find((magic) => has(magic) && (magic.also === undefined || has(magic.also)))?.mediaType ?? null;
}

/** A media type without its parameters, in lower case; null for what is none. */
export function bareMediaType(text: string): string | null {
  const bare = text.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return MEDIA_TYPE.test(bare) ? bare : null;
}

export type MediaTypeVerdict = Readonly<{ mediaType: string } | { refused: string }>;

/**
 * The media type that bytes are kept under. What their beginning says counts; a name that claims one of these types for
 * something else is refused, because a provider would refuse the whole request. Of all else the name is believed, and
 * without one it is text where it can be.
 * @param declared as a caller wrote it; undefined where it wrote none
 */
export function judgeMediaType(declared: string | undefined, bytes: Uint8Array): MediaTypeVerdict {
  if (bytes.length === 0) return { refused: 'must not be empty' };
  const named = declared === undefined ? ANY_BYTES : bareMediaType(declared);
  if (named === null) return { refused: 'is not a media type' };
  const sniffed = sniffMediaType(bytes);
  if (sniffed !== null) return { mediaType: sniffed };
  if (SNIFFED_MEDIA_TYPES.has(named)) return { refused: `is not ${named}, whatever it says` };
  if (named !== ANY_BYTES) return { mediaType: named };
  return { mediaType: isText(bytes) ? 'text/plain' : ANY_BYTES };
}

/** The media type that an upload names; undefined where it names none, or only what a client says by default. */
export function namedMediaType(contentType: string | undefined): string | undefined {
  const bare = contentType === undefined ? undefined : bareMediaType(contentType);
  return bare === ANY_BYTES || bare === ANY_UPLOAD ? undefined : contentType;
}

/**
 * The media type that kept bytes have for somebody who names one: that, unless their beginning tells what they are.
 * @param named empty where nobody names any
 * @param kept the type that they are kept under
 */
export function renameMediaType(named: string, kept: string): MediaTypeVerdict {
  if (named === '' || named === ANY_BYTES || SNIFFED_MEDIA_TYPES.has(kept)) return { mediaType: kept };
  return SNIFFED_MEDIA_TYPES.has(named) ? { refused: `is not ${named}, whatever it says` } : { mediaType: named };
}

function isText(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\u0000');
  } catch {
    return false;
  }
}

/** Raster images, which a browser shows and never runs. */
const SAFE_INLINE: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Whether a browser may show it in place: anything else (HTML, SVG, PDF) is only ever a download. */
export const isSafeInline = (mediaType: string): boolean => SAFE_INLINE.has(mediaType);
