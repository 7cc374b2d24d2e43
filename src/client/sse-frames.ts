export type SseFrame = Readonly<{ id: string | null; event: string; data: string }>;

/** A reader that keeps its state between two pieces of a body. */
export type SseReader = Readonly<{
  /** The events that this piece completes. */
  read: (bytes: Uint8Array) => SseFrame[];
}>;

/**
 * Reads a body of type `text/event-stream` in pieces of any size. An event without a final blank line is dropped, as
 * https://html.spec.whatwg.org/multipage/server-sent-events.html says. Lines may end in LF or CR LF.
 */
export function createSseReader(): SseReader {
  const decoder = new TextDecoder();
  let rest = '';
  let lines: string[] = [];
  return {
    read(bytes) {
      const frames: SseFrame[] = [];
      const pieces = (rest + decoder.decode(bytes, { stream: true })).split('\n');
      rest = pieces.pop() ?? '';
      for (const piece of pieces) {
        const line = piece.endsWith('\r') ? piece.slice(0, -1) : piece;
        if (line !== '') {
          lines.push(line);
          continue;
        }
        const frame = toFrame(lines);
        lines = [];
        if (frame !== null) frames.push(frame);
      }
      return frames;
    },
  };
}

function toFrame(lines: readonly string[]): SseFrame | null {
  const fields = lines.map((line) => {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    return { name, value };
  });
  const last = (wanted: string) => fields.findLast(({ name }) => name === wanted)?.value;
  const data = fields.filter(({ name }) => name === 'data').map(({ value }) => value);
  if (data.length === 0) return null;
  return { id: last('id') ?? null, event: last('event') ?? 'message', data: data.join('\n') };
}
