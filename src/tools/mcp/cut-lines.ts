type CutLines = Readonly<{
  push: (piece: string) => void;
  /** Emits the last line if it has no line break. */
  end: () => void;
}>;

/** Emits the lines that are not empty, cut to `maxChars`. An endless line is not buffered beyond that. */
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
