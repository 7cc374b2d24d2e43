import type { ListedSession } from '@baton-run/server/client';
import type { ReactNode } from 'react';
import { plainWords } from '../format.ts';

/** Blanks and ASCII punctuation, at which the service splits words. */
const BETWEEN = '[\\s!-\\/:-@[-`{-~]';

/** Characters before the first found word, so that a narrow column shows the word. */
const MOST_BEFORE = 24;

/** The text of the message in which a search has found its words, with the words marked. */
export function FoundWords({
  hit: { role, text },
  q,
}: Readonly<{ hit: NonNullable<ListedSession['hit']>; q: string }>): ReactNode {
  const words = q.split(new RegExp(`${BETWEEN}+`)).filter((word) => word !== '');
  const [before = '', ...pieces] = plainWords(text).split(new RegExp(`(?<=^|${BETWEEN})(${words.join('|')})`, 'iu'));
  // Without a found word the text is all that there is to show.
  const first = pieces.length === 0 ? before : before.slice(-MOST_BEFORE);
  return (
    <>
      {role === 'user' && 'User: '}…{first}
      {pieces.map((piece, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text have no names.
        <Piece key={index} isFound={index % 2 === 0}>
          {piece}
        </Piece>
      ))}
      …
    </>
  );
}

const Piece = ({ isFound, children }: Readonly<{ isFound: boolean; children: string }>): ReactNode =>
  isFound ? <mark className="bg-found font-medium text-ink">{children}</mark> : children;
