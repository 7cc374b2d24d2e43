/** Collects text of any length in bounded memory: keeps its head and its tail. */
export type BoundedOutput = Readonly<{
  append: (text: string) => void;
  /** The text; if it is longer than the limit, half of the limit from each end with a mark between them. */
  toString: () => string;
}>;

/** Growth of the tail before it is cut again: cutting for each small piece would copy all of it. */
const SLACK_CHARS = 1_000_000;

/** Keeps at most `maxChars` characters, and briefly some more. */
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
      if (tail.length > tailChars + SLACK_CHARS) trimTail();
    },
    toString: () => {
      trimTail();
      const mark = `\n[… ${droppedChars} characters cut here: write long output to a file and read parts of it …]\n`;
      return droppedChars === 0 ? head + tail : `${head}${mark}${tail}`;
    },
  };
}
