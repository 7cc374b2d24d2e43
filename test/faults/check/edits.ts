import { type AcceptedMessage, AT_END, type ModelRequest, placesOf, tokensIn } from './messages.ts';
import { rawId, type Snapshot } from './snapshot.ts';

/** A session was asked to go on with what waited. */
export type Resumption = Readonly<{ runId: string; messageIds: readonly string[] }>;

/**
 * What a sender has taken back, or what a message said before it was changed, or was refused: it is nowhere and no
 * model has seen it, in a summary neither.
 */
export function checkTakenBack(
  { messages, waiting }: Snapshot,
  accepted: readonly AcceptedMessage[],
  refused: readonly string[],
  requests: readonly ModelRequest[],
): string[] {
  const places = placesOf(messages);
  const heard = new Set(requests.flatMap(({ text }) => tokensIn(text)));
  const still = accepted.flatMap(({ isRemoved, messageId, token }) =>
    isRemoved === true && waiting.has(rawId(messageId)) ? [`${token} still waits`] : [],
  );
  const never = [
    ...refused,
    ...accepted.flatMap(({ token, formerTokens = [], isRemoved }) => [
      ...formerTokens,
      ...(isRemoved === true ? [token] : []),
    ]),
  ];
  const problems = never.flatMap((token) => [
    ...(places.has(token) ? [`${token} is in the transcript`] : []),
    ...(heard.has(token) ? [`${token} was shown to the model`] : []),
  ]);
  return [...still, ...problems];
}

/** What waited when its session was asked to go on, and was not taken up by the run that did. */
export function checkResumed(
  { messages, runs, events }: Snapshot,
  accepted: readonly AcceptedMessage[],
  resumptions: readonly Resumption[],
): string[] {
  const places = placesOf(messages);
  const sent = new Map(accepted.map((message) => [message.messageId, message]));
  const stopped = new Set(events.flatMap(({ runId, data }) => (data['lateCancel'] === true ? [runId] : [])));
  const cameToEnd = new Set(
    runs.filter(({ id, status }) => AT_END.has(status) && !stopped.has(id)).map(({ id }) => id),
  );
  return resumptions.flatMap(({ runId, messageIds }) =>
    messageIds.flatMap((id) => {
      const message = sent.get(id);
      if (message === undefined || message.isRemoved === true || !cameToEnd.has(rawId(runId))) return [];
      const isHeard = places.get(message.token)?.[0]?.runId === rawId(runId);
      return isHeard ? [] : [`${message.token} was left behind by the run that was to go on with it`];
    }),
  );
}
