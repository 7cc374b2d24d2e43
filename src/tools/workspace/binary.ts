/** As many bytes as Git examines to tell binary files from text. */
const PROBE_BYTES = 8_000;

/** Whether a file with this beginning counts as binary: a NUL in the first 8 000 bytes, so also UTF-16 text. */
export function looksBinary(beginning: Uint8Array): boolean {
  return beginning.subarray(0, PROBE_BYTES).includes(0);
}
