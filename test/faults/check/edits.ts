import { type AcceptedMessage, AT_END, type ModelRequest, placesOf, tokensIn } from './messages.ts';
import { rawId, type Snapshot } from './snapshot.ts';

/** A request that asked a session to go on with its waiting messages. */
export type Resumption = Readonly<{ runId: string; messageIds: readonly string[] }>;

/**
 * Finds removed messages, former contents of changed messages and refused messages that are still somewhere. They may
 * neither wait nor stand in a transcript, and no request to the model may show them, not even one for a summary.
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

/** Messages that waited when their session was asked to go on, and that the resumed run did not take up. */
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
