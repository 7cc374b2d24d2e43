/** One server-sent event. */
export type SseFrame = Readonly<{ id: string | null; event: string; data: string }>;

/**
 * Reads a body of type `text/event-stream`, however it is cut into pieces. What is not ended by a blank line is dropped,
 * as https://html.spec.whatwg.org/multipage/server-sent-events.html says. Lines may end in LF or CR LF.
 */
export async function* readSseFrames(body: AsyncIterable<Uint8Array>): AsyncGenerator<SseFrame, void> {
  const decoder = new TextDecoder();
  let rest = '';
  let lines: string[] = [];
  for await (const bytes of body) {
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
      if (frame !== null) yield frame;
    }
  }
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
