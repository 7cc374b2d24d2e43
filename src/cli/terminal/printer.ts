import { styleText } from 'node:util';
import type { Piece, Tone } from './progress.ts';
import { printable } from './words.ts';

export type Printer = Readonly<{
  print: (...pieces: readonly Piece[]) => void;
  /** Ends a line that is still being streamed. */
  end: () => void;
}>;

type Output = NodeJS.WritableStream & Readonly<{ isTTY?: boolean; columns?: number }>;
type Format = Parameters<typeof styleText>[0];

const INDENT = '  ';
const MAX_WIDTH = 110;

const FORMATS: Readonly<Record<Tone | 'heading', Format | null>> = {
  heading: 'bold',
  plain: null,
  dim: 'dim',
  good: 'green',
  bad: 'red',
  note: 'cyan',
};

/**
 * Writes pieces to a terminal in colours, word by word; elsewhere as plain lines. Respects NO_COLOR and FORCE_COLOR.
 */
export function createPrinter(output: Output): Printer {
  const live = output.isTTY === true;
  const style = (format: Format | null, text: string): string =>
    format === null || text === '' ? text : styleText(format, text, { stream: output });
  const flow = createTextFlow((text) => output.write(text), live ? widthOf(output) : null);
  let streaming: Tone | null = null;

  const end = (): void => {
    if (streaming !== null) flow.end();
    streaming = null;
  };
  const printOne = (piece: Piece): void => {
    if (piece.kind === 'stream') {
      if (streaming !== piece.tone) end();
      streaming = piece.tone;
      flow.push(printable(piece.text), (text) => style(FORMATS[piece.tone], text));
      return;
    }
    end();
    if (piece.kind === 'heading') output.write(`\n${style(FORMATS.heading, piece.text)}\n`);
    else output.write(`${INDENT}${style(FORMATS[piece.tone], printable(piece.text))}\n`);
  };
  return { print: (...pieces) => pieces.forEach(printOne), end };
}

/** A terminal with an unknown width reports 0. */
const widthOf = ({ columns = 0 }: Output): number => Math.max(20, Math.min(columns || 80, MAX_WIDTH));

type TextFlow = Readonly<{
  push: (text: string, style: (text: string) => string) => void;
  end: () => void;
}>;

/** Streamed text with an indent: with a width word by word and wrapped, without one line by line as it is. */
function createTextFlow(write: (text: string) => void, width: number | null): TextFlow {
  let column = 0;
  let spaces = '';
  let word = '';
  let style = (text: string): string => text;

  const flushWord = (): void => {
    if (word === '') return;
    const fits = width === null || column + spaces.length + word.length <= width;
    if (column > 0 && !fits) {
      write('\n');
      column = 0;
      spaces = '';
    }
    const lead = (column === 0 ? INDENT : '') + spaces;
    write(lead + style(word));
    column += lead.length + word.length;
    spaces = '';
    word = '';
  };
  const newLine = (): void => {
    flushWord();
    write('\n');
    column = 0;
    spaces = '';
  };
  return {
    push(text, wanted) {
      style = wanted;
      for (const part of text.split(/(\n| )/)) {
        if (part === '\n') newLine();
        else if (part !== ' ' || width === null) word += part;
        else {
          flushWord();
          spaces += ' ';
        }
      }
    },
    end() {
      flushWord();
      if (column > 0) write('\n');
      column = 0;
      spaces = '';
    },
  };
}
