import { type ReactNode, useState } from 'react';
import { bytes } from '../format.ts';

const FIRST_CHARS = 6_000;
const MORE_CHARS = 60_000;

/** A text of any length, of which only the beginning is in the page until more is asked for. */
export function LongText({
  text,
  render = (shown) => <pre className="plain">{shown}</pre>,
}: Readonly<{ text: string; render?: (shown: string) => ReactNode }>): ReactNode {
  const [chars, setChars] = useState(FIRST_CHARS);
  const shown = text.length <= chars ? text : cutAt(text, chars);
  const rest = text.length - shown.length;
  return (
    <>
      {render(shown)}
      {rest > 0 && (
        <button type="button" className="button small mt-1" onClick={() => setChars(chars + MORE_CHARS)}>
          Show more: {bytes(rest)} follow
        </button>
      )}
    </>
  );
}

/** Never in the middle of a character. */
const cutAt = (text: string, chars: number): string =>
  text.slice(0, /[\ud800-\udbff]/.test(text.charAt(chars - 1)) ? chars - 1 : chars);

/** JSON for people. A string stays a string. */
export function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

/** The first words of an input, on one line. */
export function inputSummary(input: unknown): string {
  if (typeof input !== 'object' || input === null) return String(input ?? '').slice(0, 200);
  const entries = Object.entries(input);
  const words = entries.map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return entries.length === 1 ? text : `${name}: ${text}`;
  });
  return words.join(' · ').replace(/\s+/g, ' ').slice(0, 200);
}
