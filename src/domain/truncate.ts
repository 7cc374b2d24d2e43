/**
 * A text that keeps head and tail of a longer one within a limit and says between them how much was cut out.
 * Well-formed: no character is cut in half. A limit that is shorter than that notice leaves the notice alone.
 * @param maxChars in UTF-16 units
 * @param hint what the notice says beside the numbers, for example where the rest can be read
 */
export function keepHeadAndTail(text: string, maxChars: number, hint = ''): { text: string; truncated: boolean } {
  if (text.length <= maxChars) return { text, truncated: false };
  // What is cut out is at most the whole, so the final notice is never longer than this one.
  const kept = Math.max(0, maxChars - noticeOf(text.length, text.length, hint).length);
  const headEnd = toBoundary(text, Math.ceil(kept / 2), -1);
  const tailStart = toBoundary(text, text.length - Math.floor(kept / 2), 1);
  const notice = noticeOf(tailStart - headEnd, text.length, hint);
  return { text: `${text.slice(0, headEnd)}${notice}${text.slice(tailStart)}`.toWellFormed(), truncated: true };
}

function noticeOf(cut: number, total: number, hint: string): string {
  return `\n… [${cut} of ${total} characters cut out${hint}] …\n`;
}

/** The position itself, or the next one in that direction where it would part a surrogate pair. */
export function toBoundary(text: string, position: number, direction: -1 | 1): number {
  const parts = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(text.slice(Math.max(0, position - 1), position + 1));
  return parts ? position + direction : position;
}
