import type { ViewMessage } from '../../transcript/message.ts';
import { fileRef, messageRef, READER_TOOL, USER_MESSAGES_REF } from '../../transcript/refs.ts';
import { quoted, unquoted } from './touched-files.ts';

type AttachedFile = Readonly<{ ref: string; mediaType: string; name: string }>;

/** The user's messages and files that a chain of summaries replaces; the newest by the ids for reading them again. */
export type UserMessages = Readonly<{
  count: number;
  newestSeqs: readonly number[];
  fileCount: number;
  newestFiles: readonly AttachedFile[];
}>;

export const NO_USER_MESSAGES: UserMessages = { count: 0, newestSeqs: [], fileCount: 0, newestFiles: [] };

/** The reader tool lists the rest of a long session. */
const NAMED_MESSAGES = 20;
const NAMED_FILES = 20;
const MAX_NAME_CHARS = 120;
const MAX_MEDIA_TYPE_CHARS = 80;

export function addUserMessages(earlier: UserMessages, messages: readonly ViewMessage[]): UserMessages {
  const userMessages = messages.filter(({ role }) => role === 'user');
  const files = userMessages.flatMap(({ seq, parts }) =>
    parts.flatMap((part, index): AttachedFile[] =>
      part.type === 'file'
        ? [{ ref: fileRef(seq, index), mediaType: shortMediaType(part.mediaType), name: shortName(part.filename) }]
        : [],
    ),
  );
  return {
    count: earlier.count + userMessages.length,
    newestSeqs: [...userMessages.map(({ seq }) => seq).toReversed(), ...earlier.newestSeqs].slice(0, NAMED_MESSAGES),
    fileCount: earlier.fileCount + files.length,
    newestFiles: [...files.toReversed(), ...earlier.newestFiles].slice(0, NAMED_FILES),
  };
}

const shortName = (filename: string | undefined): string =>
  (filename ?? '').trim().slice(0, MAX_NAME_CHARS).trim().toWellFormed() || 'unnamed';

const shortMediaType = (mediaType: string): string =>
  mediaType.replaceAll(/[^\w./+-]/g, '').slice(0, MAX_MEDIA_TYPE_CHARS) || 'unknown';

const OPENING = '<user_messages';
const CLOSING = '</user_messages>';
const BLOCK = /<user_messages count="(\d+)" files="(\d+)">\n([\s\S]*?)\n<\/user_messages>/;
const SEQ = /\bmsg_(\d+)/g;
const FILE = /^(file_\d+_\d+) (\S+) (.+)$/gm;

/** Writes the block of a summary that names them, for `takeUserMessages`; '' if there are none. */
export function formatUserMessages({ count, newestSeqs, fileCount, newestFiles }: UserMessages): string {
  if (count === 0) return '';
  const older = count - newestSeqs.length;
  const olderFiles = fileCount - newestFiles.length;
  return [
    `${OPENING} count="${count}" files="${fileCount}">`,
    `The user's own words, the newest first: ${newestSeqs.map(messageRef).join(' ')}${older > 0 ? ` and ${older} older` : ''}`,
    ...(fileCount === 0 ? [] : ['Attached files:']),
    ...newestFiles.map(({ ref, mediaType, name }) => `${ref} ${mediaType} ${quoted(name)}`),
    ...(olderFiles > 0 ? [`and ${olderFiles} older`] : []),
    `${READER_TOOL} shows each by its id, and all that the user said under the id ${USER_MESSAGES_REF}.`,
    CLOSING,
  ].join('\n');
}

/** Parses the block, and returns the text before it. */
export function takeUserMessages(text: string): Readonly<{ messages: UserMessages; before: string }> {
  const at = text.lastIndexOf(OPENING);
  const block = at < 0 ? null : BLOCK.exec(text.slice(at));
  if (block === null) return { messages: NO_USER_MESSAGES, before: text };
  const content = block[3] ?? '';
  const [words = ''] = content.split('\n', 1);
  return {
    messages: {
      count: Number(block[1]),
      newestSeqs: [...words.matchAll(SEQ)].map(([, seq]) => Number(seq)),
      fileCount: Number(block[2]),
      newestFiles: [...content.matchAll(FILE)].map(([, ref = '', mediaType = '', name = '']) => ({
        ref,
        mediaType,
        name: unquoted(name),
      })),
    },
    before: text.slice(0, at),
  };
}
