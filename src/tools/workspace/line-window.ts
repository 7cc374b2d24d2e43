/** One line of a file; `cutChars` characters were cut from its end. */
export type Line = Readonly<{ text: string; cutChars: number }>;

/** Picks lines out of a text that comes in pieces. Holds only those lines, each up to its limit. */
export type LineWindow = Readonly<{
  /** Takes the next piece. True: the window is full and there is more text, so no further piece is needed. */
  push: (text: string) => boolean;
  end: () => Readonly<{ lines: readonly Line[]; totalLines: number; carriageReturns: boolean }>;
}>;

/**
 * A window of `limit` lines from line `offset` (1-based), each cut after `maxLineChars` characters. A line break ends a
 * line.
 */
export function createLineWindow(offset: number, limit: number, maxLineChars: number): LineWindow {
  const lines: Line[] = [];
  let lineNumber = 1;
  let kept = '';
  let length = 0;
  let lastChar = '';
  let carriageReturns = false;

  const take = (text: string): void => {
    if (text === '') return;
    length += text.length;
    lastChar = text.slice(-1);
    if (lineNumber >= offset && kept.length < maxLineChars) kept += text.slice(0, maxLineChars - kept.length);
  };
  const finishLine = (): void => {
    const chars = lastChar === '\r' ? length - 1 : length;
    if (lineNumber >= offset) {
      carriageReturns ||= lastChar === '\r';
      const cutChars = Math.max(0, chars - maxLineChars);
      // A copy: a slice would keep its whole source piece in memory.
      lines.push({ text: cutChars > 0 ? Buffer.from(kept).toString() : kept.slice(0, chars), cutChars });
    }
    lineNumber += 1;
    kept = '';
    length = 0;
    lastChar = '';
  };

  return {
    push: (text) => {
      let from = 0;
      while (from < text.length) {
        if (lines.length === limit) return true;
        const lineBreak = text.indexOf('\n', from);
        take(text.slice(from, lineBreak === -1 ? undefined : lineBreak));
        if (lineBreak === -1) return false;
        finishLine();
        from = lineBreak + 1;
      }
      return false;
    },
    end: () => {
      if (length > 0) finishLine();
      return { lines, totalLines: lineNumber - 1, carriageReturns };
    },
  };
}
