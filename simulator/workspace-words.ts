/** Words that say nothing about the file of a task. */
const COMMON_WORDS = new Set(
  `about above after again against also another answer anything around because been before being below between both
  briefly change changes check code could count describe detail details directory does doing done down during each else
  every everything explain file files find finding first folder folders from give good have having help here into itself
  just know last later lines list look looking made make many mention more most much must name named need needs never next
  note only other over please print project read really report repository said same several should show small some something
  step steps still such sure take task tell than that their them then there these they thing things this those through time
  together under until very want well were what when where which while whole will with within without word words work
  working workspace would write your yourself`.split(/\s+/),
);

const WORD = /[\p{L}_][\p{L}\p{N}_]{3,}/gu;
const FILE_NAME = /[\w@/.-]*[\w-]\.[A-Za-z]\w{0,5}\b/g;

/** Names in a text that look like file paths ("src/server.ts"), in their order. */
export function fileNamesIn(text: string): string[] {
  return [...text.matchAll(FILE_NAME)].map(([name]) => name.replace(/^\.?\//, ''));
}

/**
 * The words of a text that best tell where to look, best first: parts of a known file name, then words written like an
 * identifier, then the longest. Empty: the text has only common words.
 */
export function tellingWords(text: string, knownPaths: readonly string[]): string[] {
  const paths = knownPaths.join('\n').toLowerCase();
  const words = [...text.matchAll(WORD)].map(([word]) => word).filter((word) => !COMMON_WORDS.has(word.toLowerCase()));
  const score = (word: string) =>
    (paths.includes(word.toLowerCase()) ? 30 : 0) + (/_|[a-z][A-Z]/.test(word) ? 20 : 0) + Math.min(word.length, 15);
  return [...new Set(words)].toSorted((left, right) => score(right) - score(left));
}

/** A number with its noun: "1 line", "2 lines". */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}

/** A text on one line, cut to a length, for quoting. */
export function quote(text: string, maxChars = 160): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= maxChars ? line : `${[...line].slice(0, maxChars).join('')}…`;
}
