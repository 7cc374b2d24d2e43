const FIRST_PAGE_BYTES = 4_096;
const PAGE_BYTES = 65_536;

export type BodyBytes = Readonly<{
  /** The memory that it takes once the next so many bytes are added. */
  sizeWith: (more: number) => number;
  add: (chunk: Uint8Array) => void;
  length: () => number;
  /** All bytes. Called once, at the end. */
  whole: () => Buffer;
}>;

/**
 * Collects the bytes of a body outside of the heap. They are copied into pages, because a chunk may be as small as a
 * byte, and keeps a whole read of its connection in memory.
 * @param declared the length that the request names; null: it names none
 */
export function collectBytes(declared: number | null): BodyBytes {
  const pages: Buffer[] = [];
  let room = 0;
  let used = 0;
  let length = 0;
  const nextPageBytes = (): number =>
    length < (declared ?? 0) ? (declared ?? 0) - length : Math.min(PAGE_BYTES, Math.max(FIRST_PAGE_BYTES, room));
  return {
    sizeWith(more) {
      let size = room;
      // As many bytes as the pages that `add` will make, or a little more.
      if (length + more > room) size += Math.max(nextPageBytes(), more + PAGE_BYTES);
      return declared === null ? size : Math.max(declared, length + more);
    },
    add(chunk) {
      // The usual case: the whole body in one chunk.
      if (length === 0 && chunk.length === declared) {
        pages.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
        length = chunk.length;
        room = used = length;
        return;
      }
      for (let offset = 0; offset < chunk.length; ) {
        if (used === room) {
          const page = Buffer.allocUnsafeSlow(nextPageBytes());
          pages.push(page);
          room += page.length;
        }
        const page = pages.at(-1) ?? Buffer.alloc(0);
        const at = page.length - (room - used);
        const part = chunk.subarray(offset, offset + room - used);
        page.set(part, at);
        used += part.length;
        length += part.length;
        offset += part.length;
      }
    },
    length: () => length,
    whole() {
      const [first] = pages;
      if (first !== undefined && pages.length === 1) return first.subarray(0, length);
      return Buffer.concat(pages, length);
    },
  };
}
