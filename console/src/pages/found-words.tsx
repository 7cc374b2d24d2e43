import type { ListedSession } from '@baton-run/server/client';
import type { ReactNode } from 'react';
import { plainWords } from '../format.ts';

/** Blanks and ASCII punctuation, at which the service splits words. */
const BETWEEN = '[\\s!-\\/:-@[-`{-~]';

/** The text of the message in which a search has found its words, with the words marked. */
export function FoundWords({
  hit: { role, text },
  q,
}: Readonly<{ hit: NonNullable<ListedSession['hit']>; q: string }>): ReactNode {
  const words = q.split(new RegExp(`${BETWEEN}+`)).filter((word) => word !== '');
  const pieces = plainWords(text).split(new RegExp(`(?<=^|${BETWEEN})(${words.join('|')})`, 'iu'));
  return (
    <>
      {role === 'user' && 'User: '}…
      {pieces.map((piece, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text have no names.
        <Piece key={index} isFound={index % 2 === 1}>
          {piece}
        </Piece>
      ))}
      …
    </>
  );
}

const Piece = ({ isFound, children }: Readonly<{ isFound: boolean; children: string }>): ReactNode =>
  isFound ? <mark className="bg-found font-medium text-ink">{children}</mark> : children;
