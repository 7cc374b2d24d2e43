/** A text that people or models read outside the source, and the place where they read it. */
export type PublishedText = Readonly<{ place: string; text: string }>;

/** Beginnings that refer to another text, or to nothing. A reader of one description sees no other. */
const FRAGMENT =
  /^(?:of|it|it's|its|they|their|them|he|his|the same|null|that|those|this|these|what|as|one that|from then|who|whose|whom|which|when|where|how|why)\b/i;

/** Texts that begin with one of these words and yet refer to nothing else. */
const ALLOWED: readonly RegExp[] = [/^as (?:JSON|text)\b/i];

/** The texts that do not begin with a noun or a verb, each with its place. */
export function fragmentsAmong(texts: readonly PublishedText[]): string[] {
  return texts
    .filter(({ text }) => FRAGMENT.test(text.replace(/^[`*"']+/, '')) && !ALLOWED.some((allowed) => allowed.test(text)))
    .map(({ place, text }) => `${place}: ${text}`);
}
