import { formatId, parseCallId, parseId } from '../../domain/ids.ts';

/**
 * The place of a response in its session: the answer to a message, or that of a run, from its beginning or after the
 * event at which it got results of calls. UUIDs.
 */
export type ResponsePlace = Readonly<
  { kind: 'message'; messageId: string } | { kind: 'run'; runId: string; afterSeq: number | null }
>;

const hexOf = (uuid: string): string => uuid.replaceAll('-', '');

function formatPlace(place: ResponsePlace): string {
  if (place.kind === 'message') return `m${hexOf(place.messageId)}`;
  return `r${hexOf(place.runId)}${place.afterSeq === null ? '' : `_${place.afterSeq}`}`;
}

function parsePlace(text: string): ResponsePlace | null {
  const [, kind, hex = '', seq] = /^([mr])([0-9a-f]{32})(?:_(\d{1,15}))?$/.exec(text) ?? [];
  const uuid = parseId('run', `run_${hex}`);
  if (uuid === null || (kind === 'm' && seq !== undefined)) return null;
  if (kind === 'm') return { kind: 'message', messageId: uuid };
  return { kind: 'run', runId: uuid, afterSeq: seq === undefined ? null : Number(seq) };
}

/** `resp_m018f…`, `resp_r018f…`, `resp_r018f…_42` */
export const formatResponseId = (place: ResponsePlace): string => `resp_${formatPlace(place)}`;

/** Null: not the id of a response. */
export const parseResponseId = (id: string): ResponsePlace | null =>
  id.startsWith('resp_') ? parsePlace(id.slice('resp_'.length)) : null;

/** The id of the text of a response: it tells its response, which clients may refer to by it. */
export const formatTextId = (place: ResponsePlace): string => `msg_${formatPlace(place)}`;

/** The id of a message, or of a text of an agent's message, among the items of which a response was made. */
export const formatInputItemId = (messageId: string, index: number): string => `msg_i${hexOf(messageId)}_${index}`;

export const formatCallItemId = (callId: string): string => callId.replace(/^call_/, 'fc_');

/** The id of the result of a call. */
export const formatResultItemId = (callId: string): string => callId.replace(/^call_/, 'fco_');

/** The place of an item among those of which a response was made. Null: no such id. */
export function parseInputItemId(id: string): Readonly<{ messageId: string }> | null {
  return parseCallId(id.replace(/^(?:msg_i|fc_|fco_)/, 'call_'));
}

/** The response, or the message, that an item tells. Null: no item of Baton. */
export function parseItemId(id: string): ResponsePlace | Readonly<{ kind: 'item'; messageId: string }> | null {
  const item = parseInputItemId(id);
  if (item !== null) return { kind: 'item', messageId: item.messageId };
  return id.startsWith('msg_') ? parsePlace(id.slice('msg_'.length)) : null;
}

/** When its message or run was accepted, in seconds: the ids are of UUID's version 7. */
export const createdAtOf = (place: ResponsePlace): number =>
  createdAt(place.kind === 'message' ? place.messageId : place.runId);

/** When this UUID of version 7 was made, in seconds. */
export const createdAt = (uuid: string): number => Math.floor(Number.parseInt(hexOf(uuid).slice(0, 12), 16) / 1_000);

/** The id of a compaction, which no later request can ask for: `resp_c018f…`. */
export const formatCompactedId = (sessionId: string): string => `resp_c${hexOf(sessionId)}`;

/** The id of the item that carries a compaction. */
export const formatCompactionItemId = (sessionId: string): string => `cmp_${hexOf(sessionId)}`;

/** `ses_…`, by which a conversation is named. */
export const conversationId = (sessionId: string): string => formatId('session', sessionId);
