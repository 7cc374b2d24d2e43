/**
 * Keeps head and tail of a longer text within a limit, with a notice of the cut between them. Characters stay whole; a
 * limit shorter than the notice leaves only the notice.
 * @param maxChars in UTF-16 units
 * @param hint added to the notice, for example where the rest can be read
 */
export function keepHeadAndTail(text: string, maxChars: number, hint = ''): { text: string; truncated: boolean } {
  if (text.length <= maxChars) return { text, truncated: false };
  // The final notice is never longer than this one: the cut is at most the whole text.
  const kept = Math.max(0, maxChars - noticeOf(text.length, text.length, hint).length);
  const headEnd = toBoundary(text, Math.ceil(kept / 2), -1);
  const tailStart = toBoundary(text, text.length - Math.floor(kept / 2), 1);
  const notice = noticeOf(tailStart - headEnd, text.length, hint);
  return { text: `${text.slice(0, headEnd)}${notice}${text.slice(tailStart)}`.toWellFormed(), truncated: true };
}

/** Cuts a text of `keepHeadAndTail` further and keeps the original length; null if it was cut with another hint. */
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

/** The position, or the next one in that direction if it would split a surrogate pair. */
export function toBoundary(text: string, position: number, direction: -1 | 1): number {
  const parts = /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(text.slice(Math.max(0, position - 1), position + 1));
  return parts ? position + direction : position;
}
