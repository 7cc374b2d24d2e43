import { createByteLines } from './byte-lines.ts';

/**
 * The events of a server-sent stream with the data of messages rewritten. A last event that breaks off is passed on,
 * because some servers end their stream without the empty line.
 * @param maxBytes of one line
 * @param rewrite returns one line of text, or null for an event that stays as it is
 * @throws BatonError `payload_too_large`
 */
export async function* rewriteEvents(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  rewrite: (data: string) => string | null,
): AsyncGenerator<Uint8Array, void, undefined> {
  const lines = createByteLines(maxBytes);
  let event: string[] = [];
  const take = (): string => {
    const text = rewritten(event, rewrite);
    event = [];
    return text;
  };
  for await (const chunk of body) {
    let text = '';
    for (const line of lines.push(Buffer.from(chunk))) {
      const bare = line.endsWith('\r') ? line.slice(0, -1) : line;
      if (bare === '') text += take();
      else event.push(bare);
    }
    if (text !== '') yield Buffer.from(text);
  }
  const [last = ''] = lines.push(Buffer.from('\n'));
  if (last !== '') event.push(last);
  if (event.length > 0) yield Buffer.from(take());
}

const DATA = /^data(?:: ?|$)/;
const OTHER_TYPE = /^event:(?! ?message$)/;

function rewritten(event: readonly string[], rewrite: (data: string) => string | null): string {
  const data = event.filter((line) => DATA.test(line)).map((line) => line.replace(DATA, ''));
  const others = event.filter((line) => !DATA.test(line));
  const isMessage = data.join('') !== '' && !others.some((line) => OTHER_TYPE.test(line));
  const text = isMessage ? rewrite(data.join('\n')) : null;
  const lines = text === null ? event : [...others, `data: ${text}`];
  return `${lines.join('\n')}\n\n`;
}
