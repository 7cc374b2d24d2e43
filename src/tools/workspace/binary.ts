/** As many bytes as Git looks at to tell binary files from text. */
const PROBE_BYTES = 8_000;

/**
 * Whether a file that begins with these bytes is treated as binary: a NUL among the first 8 000.
 * UTF-16 text counts as binary.
 */
export function looksBinary(beginning: Uint8Array): boolean {
  return beginning.subarray(0, PROBE_BYTES).includes(0);
}
