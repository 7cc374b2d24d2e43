/** The place of a part in its session: the number of its message and its index there. */
export type PartPlace = Readonly<{ messageSeq: number; partIndex: number }>;

/** What an id in a text for the model stands for. `list`: all that the user said. */
export type Ref = Readonly<
  ({ kind: 'output' | 'file' } & PartPlace) | { kind: 'message'; messageSeq: number } | { kind: 'list' }
>;

/** The tool by which the model reads again what its view shows in part or not at all. */
export const READER_TOOL = 'read_tool_output';

/** The id of the list of all that the user said. */
export const USER_MESSAGES_REF = 'user_messages';

const PART_REF = /^(out|file)_([1-9]\d{0,14})_(\d{1,9})$/;
const MESSAGE_REF = /^msg_([1-9]\d{0,14})$/;

/** The id under which the model can read a tool's output again. */
export const outputRef = (messageSeq: number, partIndex: number): string => `out_${messageSeq}_${partIndex}`;

/** The same for a file that the user attached. */
export const fileRef = (messageSeq: number, partIndex: number): string => `file_${messageSeq}_${partIndex}`;

/** The same for what a message says. */
export const messageRef = (messageSeq: number): string => `msg_${messageSeq}`;

/** What an id stands for; null for anything else: models make up ids. */
export function parseRef(given: string): Ref | null {
  const ref = given.trim();
  if (ref === USER_MESSAGES_REF) return { kind: 'list' };
  const part = PART_REF.exec(ref);
  if (part !== null) {
    return { kind: part[1] === 'out' ? 'output' : 'file', messageSeq: Number(part[2]), partIndex: Number(part[3]) };
  }
  const message = MESSAGE_REF.exec(ref);
  return message === null ? null : { kind: 'message', messageSeq: Number(message[1]) };
}
