import type { Loss } from './losses.ts';
import { type ModelRequest, placesOf, tokensIn } from './messages.ts';
import type { Snapshot } from './snapshot.ts';
import { answersIn, numbersIn } from './transcript.ts';

/** A step that was begun before Postgres lost its commits has sent its request by then, even on a busy machine. */
const SENT_WITHIN_MS = 5_000;

/**
 * Requests that show messages or answers which the database lacks. What is lost may have been shown in its time, and a
 * moment longer, but never for an answer that is in a transcript.
 */
export function checkGhosts(
  { messages }: Snapshot,
  requests: readonly ModelRequest[],
  losses: readonly Loss[],
): string[] {
  const places = placesOf(messages);
  const answers = new Set(messages.flatMap(answersIn));
  const kept = new Set(messages.filter(({ superseded }) => !superseded).flatMap(answersIn));
  return requests.flatMap(({ text, answer, isSummary, startedAtMs = 0 }) => {
    if (isSummary === true) return [];
    const isOfItsTime = losses.some(
      ({ fromMs, untilMs }) => startedAtMs > fromMs && startedAtMs < untilMs + SENT_WITHIN_MS,
    );
    if (isOfItsTime && (answer === undefined || !kept.has(answer))) return [];
    const ghosts = [
      ...tokensIn(text).filter((token) => !places.has(token)),
      ...numbersIn(text)
        .filter((number) => !answers.has(number))
        .map((number) => `answer ${number}`),
    ];
    return ghosts.length === 0 ? [] : [`answer ${answer} was asked for with ${[...new Set(ghosts)].join(', ')}`];
  });
}
