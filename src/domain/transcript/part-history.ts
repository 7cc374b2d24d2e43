import type { Part } from './message.ts';

/** Changes that the view made to a part after it was recorded. Absent: did not happen. */
export type PartHistory = Readonly<{
  /** Time of the prune. The view shows a placeholder since then. */
  compactedAt?: Date;
  /** Time when its images and files were removed from the view. */
  mediaStrippedAt?: Date;
  /** Output characters that the view shows. The middle of a longer output is left out. */
  viewLimitChars?: number;
  /** Tokens before the first of these changes, or before the output was cut on arrival. */
  originalTokens?: number;
  /** The output was cut on arrival. The blob has the whole. */
  truncated?: true;
}>;

export type TranscriptPart = Part & Readonly<{ history?: PartHistory }>;
