/** Bytes `start` to `end` of a content, both included. */
export type ByteRange = Readonly<{ start: number; end: number }>;

/**
 * The part of a content that `Range` asks for (RFC 9110 §14).
 * @param header of the request
 * @returns `whole` without a range, and for units, lists and forms that are not served; `unsatisfiable` for a range
 * that begins behind the end
 */
export function readByteRange(header: string | undefined, sizeBytes: number): ByteRange | 'whole' | 'unsatisfiable' {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? [];
  if (first === undefined || last === undefined || first + last === '') return 'whole';
  if (first === '') {
    const suffixBytes = Math.min(Number(last), sizeBytes);
    return suffixBytes === 0 ? 'unsatisfiable' : { start: sizeBytes - suffixBytes, end: sizeBytes - 1 };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return 'whole';
  if (start >= sizeBytes) return 'unsatisfiable';
  return { start, end: last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1) };
}

/** Whether `If-None-Match` names the tag (RFC 9110 §13.1.2: `W/` does not matter). */
export function namesTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}

/** `content-disposition` with a file name in ASCII and in UTF-8 (RFC 6266, RFC 8187). Empty name: none. */
export function dispositionOf(kind: 'inline' | 'attachment', name = ''): string {
  if (name === '') return kind;
  const ascii = name.replaceAll(/[^\x20-\x7e]|["%\\]/g, '_');
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `${kind}; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}
