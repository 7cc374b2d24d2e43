/** What of a text that comes in pieces has not been told yet. */
type CutLines = Readonly<{
  push: (piece: string) => void;
  /** Tells the last line, if nothing ended it. */
  end: () => void;
}>;

/**
 * Tells the lines of a text as they come, empty ones left out. Of a longer line only the beginning is told and kept,
 * whether or not it ever ends.
 */
export function cutLines(maxChars: number, onLine: (line: string) => void): CutLines {
  let line = '';
  const tell = (): void => {
    if (line !== '') onLine(line);
    line = '';
  };
  return {
    push(piece) {
      for (const [at, text] of piece.split(/[\r\n]/).entries()) {
        if (at > 0) tell();
        line += text.slice(0, maxChars - line.length);
      }
    },
    end: tell,
  };
}
