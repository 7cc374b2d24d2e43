import type { Findings } from './check/verdict.ts';
import type { SourceChange } from './strikes/product-copy.ts';

/**
 * Kinds of findings that say what is wrong: a row that struck nothing says nothing, and a copy
 * that only crashes neither.
 */
export type Telling = Exclude<keyof Findings, 'missed' | 'crashes' | 'unknownTools'>;

/** A promise broken on purpose, the faults under which that must show, and how. */
export type Breakage = Readonly<{
  name: string;
  about: string;
  changes: readonly SourceChange[];
  faults: readonly string[];
  /** It is found out by any of these, and by nothing else. */
  foundBy: readonly Telling[];
}>;
