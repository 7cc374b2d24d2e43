/** What a tool output is called in texts for the model. */
const OUTPUT_REF = /^out_([1-9]\d{0,14})_(\d{1,9})$/;

/** The place of a part in its session: the number of its message and its index there. */
export type OutputPlace = Readonly<{ messageSeq: number; partIndex: number }>;

/**
 * The id under which the model can read an output again that the view does not show in full, with `read_tool_output`.
 */
export const outputRef = (messageSeq: number, partIndex: number): string => `out_${messageSeq}_${partIndex}`;

/** The place that an id stands for; null for anything else: models make up ids. */
export function parseOutputRef(ref: string): OutputPlace | null {
  const match = OUTPUT_REF.exec(ref.trim());
  return match === null ? null : { messageSeq: Number(match[1]), partIndex: Number(match[2]) };
}
