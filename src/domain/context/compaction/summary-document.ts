import { isBlank } from '../../model/model-frames.ts';
import type { Part, ViewMessage } from '../../transcript/message.ts';
import { messageRef } from '../../transcript/refs.ts';
import { formatResources, type ListBounds, parseResources, type TouchedResource } from './touched-files.ts';
import { formatUserMessages, takeUserMessages, type UserMessages } from './user-messages.ts';

/** Place of the session's first user message: in the summary, or after it if it is also the last one. */
export type FirstUser = Readonly<{ seq: number } & ({ at: 'summary'; text: string } | { at: 'after_summary' })>;

/** A summary in its parts. A model writes only `body`; the rest passes from round to round unchanged. */
export type SummaryDocument = Readonly<{
  round: number;
  fromSeq: number;
  uptoSeq: number;
  firstUser: FirstUser | null;
  body: string;
  userMessages: UserMessages;
  resources: readonly TouchedResource[];
}>;

export type PreviousSummary = Readonly<{
  messageId: string;
  seq: number;
  body: string;
  firstUser: FirstUser | null;
  /** Parts of the user message that stands after the summary. */
  carried: readonly Part[];
  userMessages: UserMessages;
  resources: readonly TouchedResource[];
  /** The first message that the chain of summaries replaces; null: the summary has no header. */
  fromSeq: number | null;
}>;

const AFTER_SUMMARY = /^<first_user_message id="msg_(\d+)" is="the message after this summary"\/>/;
const FIRST_USER = /^<first_user_message id="msg_(\d+)" chars="(\d+)">\n/;
const FIRST_USER_END = '\n</first_user_message>\n';
const HEADER = /^Summary no\. (\d+), of messages (\d+) to (\d+)\.\n+/;

/** Baton's own tags in a model's text would be parsed as Baton's. */
const OUR_TAGS = /<(\/?)(touched_resources|first_user_message|user_messages|conversation_summary)/g;

/** Writes the text of a summary. `readSummary` can parse it for any text of the user or the model. */
export function composeSummary(document: SummaryDocument, bounds: ListBounds): string {
  const { round, fromSeq, uptoSeq, body, resources } = document;
  const first = firstUserBlock(document.firstUser);
  const userMessages = formatUserMessages(document.userMessages);
  const list = formatResources(resources, bounds);
  return [
    `Summary no. ${round}, of messages ${fromSeq} to ${uptoSeq}.`,
    ...(first === '' ? [] : [first]),
    body.replaceAll(OUR_TAGS, '<$1_$2').trim(),
    ...(userMessages === '' ? [] : [userMessages]),
    ...(list === '' ? [] : [list]),
  ].join('\n\n');
}

function firstUserBlock(first: FirstUser | null): string {
  if (first === null) return '';
  const id = messageRef(first.seq);
  if (first.at === 'after_summary') return `<first_user_message id="${id}" is="the message after this summary"/>`;
  return `<first_user_message id="${id}" chars="${first.text.length}">\n${first.text}${FIRST_USER_END.trimEnd()}`;
}

/** Parses the summary at the beginning of a view; null: there is none. */
export function readSummary(view: readonly ViewMessage[]): PreviousSummary | null {
  const [message] = view;
  const part = message?.role === 'user' ? message.parts.find(({ type }) => type === 'compaction') : undefined;
  if (message === undefined || part?.type !== 'compaction') return null;
  const header = HEADER.exec(part.text);
  const carried = message.parts.filter(({ type }) => type === 'text' || type === 'file');
  const text = part.text.slice(header?.[0].length ?? 0);
  const { firstUser, rest } = takeFirstUser(text);
  const resources = parseResources(rest);
  const end = resources.length === 0 ? rest.length : rest.lastIndexOf('<touched_resources');
  const { messages: userMessages, before } = takeUserMessages(rest.slice(0, end));
  return {
    messageId: message.id,
    seq: message.seq,
    body: before.trim(),
    firstUser,
    carried,
    userMessages,
    resources,
    fromSeq: header === null ? null : Number(header[2]),
  };
}

function takeFirstUser(text: string): { firstUser: FirstUser | null; rest: string } {
  const after = AFTER_SUMMARY.exec(text);
  if (after !== null) {
    return { firstUser: { at: 'after_summary', seq: Number(after[1]) }, rest: text.slice(after[0].length) };
  }
  const opening = FIRST_USER.exec(text);
  if (opening === null) return { firstUser: null, rest: text };
  const start = opening[0].length;
  const end = start + Number(opening[2]);
  return {
    firstUser: { at: 'summary', seq: Number(opening[1]), text: text.slice(start, end) },
    rest: text.slice(end + FIRST_USER_END.length),
  };
}

export function userText(parts: readonly Part[]): string | null {
  const texts = parts.flatMap((part) => (part.type === 'text' && !isBlank(part.text) ? [part.text] : []));
  return texts.length === 0 ? null : texts.join('\n\n');
}
