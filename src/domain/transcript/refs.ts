export type PartPlace = Readonly<{ messageSeq: number; partIndex: number }>;

/** The target of an id that the model reads. `list`: all messages of the user. */
export type Ref = Readonly<
  ({ kind: 'output' | 'file' } & PartPlace) | { kind: 'message'; messageSeq: number } | { kind: 'list' }
>;

/** The tool with which the model reads content that its view cuts or omits. */
export const READER_TOOL = 'read_tool_output';

export const USER_MESSAGES_REF = 'user_messages';

const PART_REF = /^(out|file)_([1-9]\d{0,14})_(\d{1,9})$/;
const MESSAGE_REF = /^msg_([1-9]\d{0,14})$/;

/** The id with which the model reads a tool's output again. */
export const outputRef = (messageSeq: number, partIndex: number): string => `out_${messageSeq}_${partIndex}`;

/** The same for a file that the user attached. */
export const fileRef = (messageSeq: number, partIndex: number): string => `file_${messageSeq}_${partIndex}`;

/** The same for a message. */
export const messageRef = (messageSeq: number): string => `msg_${messageSeq}`;

/** Null for any other text: models invent ids. */
export function parseRef(text: string): Ref | null {
  const ref = text.trim();
  if (ref === USER_MESSAGES_REF) return { kind: 'list' };
  const part = PART_REF.exec(ref);
  if (part !== null) {
    return { kind: part[1] === 'out' ? 'output' : 'file', messageSeq: Number(part[2]), partIndex: Number(part[3]) };
  }
  const message = MESSAGE_REF.exec(ref);
  return message === null ? null : { kind: 'message', messageSeq: Number(message[1]) };
}
