/** Collects text of any length in bounded memory: keeps its head and its tail. */
export type BoundedOutput = Readonly<{
  append: (text: string) => void;
  /** The text; if it is longer than the limit, half of the limit from each end with a mark between them. */
  toString: () => string;
}>;

/** A collector that keeps at most `maxChars` characters. It holds up to about three times that for a moment. */
export function createBoundedOutput(maxChars: number): BoundedOutput {
  const headChars = Math.ceil(maxChars / 2);
  const tailChars = maxChars - headChars;
  let head = '';
  let tail = '';
  let droppedChars = 0;
  const trimTail = (): void => {
    if (tail.length <= tailChars) return;
    droppedChars += tail.length - tailChars;
    tail = tail.slice(tail.length - tailChars);
  };
  return {
    append: (text) => {
      const room = headChars - head.length;
      head += text.slice(0, room);
      tail += text.slice(room);
      // Not at every append: many small pieces would each copy the whole tail.
      if (tail.length > 2 * maxChars) trimTail();
    },
    toString: () => {
      trimTail();
      const mark = `\n[… ${droppedChars} characters cut here: write long output to a file and read parts of it …]\n`;
      return droppedChars === 0 ? head + tail : `${head}${mark}${tail}`;
    },
  };
}
