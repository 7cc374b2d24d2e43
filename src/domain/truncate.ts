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

/**
 * A text that `keepHeadAndTail` has cut with this hint, cut further; null for any other. Its notice goes on telling the
 * length of the text that was cut first.
 */
export function shortenCut(text: string, maxChars: number, hint: string): string | null {
  const [before, after = '', ...more] = text.split(`${hint}] …\n`);
  const opening = /\n… \[\d+ of (\d+) characters cut out$/.exec(before ?? '');
  if (opening === null || before === undefined || more.length > 0) return null;
  const total = Number(opening[1]);
  const head = before.slice(0, opening.index);
  const kept = Math.max(0, maxChars - noticeOf(total, total, hint).length);
  const headEnd = toBoundary(head, Math.min(head.length, Math.ceil(kept / 2)), -1);
  const tailStart = toBoundary(after, Math.max(0, after.length - Math.floor(kept / 2)), 1);
  const cut = total - headEnd - (after.length - tailStart);
  return `${head.slice(0, headEnd)}${noticeOf(cut, total, hint)}${after.slice(tailStart)}`.toWellFormed();
}

function noticeOf(cut: number, total: number, hint: string): string {
  return `\n… [${cut} of ${total} characters cut out${hint}] …\n`;
}

/** The position itself, or the next one in that direction where it would part a surrogate pair. */
export function toBoundary(text: string, position: number, direction: -1 | 1): number {
  const parts = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(text.slice(Math.max(0, position - 1), position + 1));
  return parts ? position + direction : position;
}
