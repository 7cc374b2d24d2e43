import fc from 'fast-check';

/** A text that Postgres takes as a payload of NOTIFY: without NUL, and shorter than 8 000 bytes. */
const text = fc.string({ unit: 'grapheme', maxLength: 300 }).map((value) => value.replaceAll('\0', ''));

/**
 * What may arrive on a channel that is read as JSON: any text, any JSON, and a right message of which a part is cut off
 * or a field is replaced.
 */
export function garbageLike(right: Readonly<Record<string, unknown>>): fc.Arbitrary<string> {
  const whole = JSON.stringify(right);
  return fc.oneof(
    text,
    fc.json({ maxDepth: 3 }).map((value) => value.slice(0, 2_000)),
    fc.nat({ max: whole.length }).map((length) => whole.slice(0, length)),
    fc
      .tuple(fc.constantFrom(...Object.keys(right)), fc.jsonValue({ maxDepth: 2 }))
      .map(([key, value]) => JSON.stringify({ ...right, [key]: value })),
  );
}

/** Collects what would have ended a process, until it is disposed. */
export function watchForDeath(): Disposable & Readonly<{ causes: readonly unknown[] }> {
  const causes: unknown[] = [];
  const onCause = (cause: unknown): void => void causes.push(cause);
  process.on('uncaughtException', onCause).on('unhandledRejection', onCause);
  return {
    causes,
    [Symbol.dispose]: () => void process.off('uncaughtException', onCause).off('unhandledRejection', onCause),
  };
}
