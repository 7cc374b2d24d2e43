import { z } from 'zod';
import { portableMessages } from '../../domain/context/compaction/portable-view.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { areJsonTextsBounded } from '../../domain/json-bounds.ts';
import type { MediaContents } from '../../domain/model/model-files.ts';
import { toStorable } from '../../domain/storable-json.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import { compactionPartSchema, jsonSchema, type ViewMessage, type ViewPart } from '../../domain/transcript/message.ts';
import { MAX_COMPACTION_CHARS, MAX_COMPACTION_FILE_BYTES, MAX_CONVERSATION_MESSAGES } from '../../domain/tunables.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { Db } from '../../store/db/database.ts';
import { toJson } from '../../store/db/json.ts';
import { readMedia } from '../../store/transcript/media.ts';
import { refuse } from './conversation-request.ts';

type Compaction = Extract<ConversationMessage, { role: 'compaction' }>;

/** The first characters of every item, with the version of what follows. */
const PREFIX = 'baton1.';

/**
 * The text by which a client carries the view of a session to any later request. It holds the messages themselves, so
 * it needs no session any more. Files beyond a bound, the oldest first, become texts with their names.
 * @throws ProblemError `conflict` (the view is still too large)
 */
export async function encodeCompaction(db: Db, sessionId: string, view: readonly ViewMessage[]): Promise<string> {
  const media = await readMedia(db, sessionId, newestWithin(view));
  const messages = portableMessages(view, (file) => portableUrl(file, media));
  const text = `${PREFIX}${Buffer.from(toJson({ messages })).toString('base64url')}`;
  if (text.length <= MAX_COMPACTION_CHARS) return text;
  const detail = `The compacted conversation has ${text.length} characters, and an item may have ${MAX_COMPACTION_CHARS}: go on with previous_response_id, whose session keeps all of it`;
  throw new ProblemError('conflict', detail);
}

/** The newest messages, whose files together are within the bound. */
function newestWithin(view: readonly ViewMessage[]): readonly ViewMessage[] {
  let left = MAX_COMPACTION_FILE_BYTES;
  const isBeyond = ({ parts }: ViewMessage): boolean => {
    left -= parts.reduce((sum, part) => sum + fileBytesOf(part), 0);
    return left < 0;
  };
  return view.slice(view.findLastIndex(isBeyond) + 1);
}

function fileBytesOf(part: ViewPart): number {
  if (part.type === 'file') return part.sizeBytes ?? 0;
  if (part.type !== 'tool' || part.output?.type !== 'content') return 0;
  return part.output.value.reduce((sum, item) => sum + (item.type === 'file' ? (item.sizeBytes ?? 0) : 0), 0);
}

function portableUrl({ mediaType, url }: Readonly<{ mediaType: string; url: string }>, media: MediaContents) {
  if (/^https?:/i.test(url)) return url;
  const base64 = media.get(url);
  return base64 === undefined ? null : `data:${mediaType};base64,${base64}`;
}

const text = z.strictObject({ type: z.literal('text'), text: z.string() });
const file = z.strictObject({
  type: z.literal('file'),
  mediaType: z.string(),
  filename: z.string().optional(),
  url: z.string().regex(/^(?:https?|data):/i),
});
const output = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), value: z.string() }),
  z.strictObject({ type: z.literal('json'), value: jsonSchema }),
  z.strictObject({ type: z.literal('content'), value: z.array(z.discriminatedUnion('type', [text, file])).min(1) }),
  z.strictObject({ type: z.literal('error-text'), value: z.string() }),
  z.strictObject({ type: z.literal('execution-denied'), reason: z.string().optional() }),
]);
const call = z.strictObject({
  type: z.literal('tool'),
  toolCallId: z.string(),
  toolName: z.string(),
  input: jsonSchema,
  state: z.enum(['completed', 'error']),
  output,
});
const contentSchema = z.strictObject({
  messages: z
    .array(
      z.discriminatedUnion('role', [
        z.strictObject({
          role: z.literal('user'),
          parts: z.array(z.discriminatedUnion('type', [text, file, compactionPartSchema])).min(1),
        }),
        z.strictObject({
          role: z.literal('assistant'),
          parts: z.array(z.discriminatedUnion('type', [text, call])).min(1),
        }),
      ]),
    )
    .max(MAX_CONVERSATION_MESSAGES),
});

/** An item of compaction in a request. `path`: of its content. */
export type CarriedItem = Readonly<{ content: string; path: string }>;

/** The conversation that a request carries in an item. @throws ProblemError `invalid_request` */
export const carriedBy = (item: CarriedItem | null): readonly Compaction[] =>
  item === null ? [] : [decodeCompaction(item.content, item.path)];

/**
 * The conversation that an item of compaction carries.
 * @param path of the item's content in the request
 * @throws ProblemError `invalid_request`
 */
export function decodeCompaction(content: string, path: string): Compaction {
  const parsed = contentSchema.safeParse(toStorable(readItem(content)));
  if (parsed.success) return { role: 'compaction', text: content, messages: parsed.data.messages };
  return refuse(path, 'is no compaction of this service: POST /v1/responses/compact makes one');
}

/** Undefined: not what `encodeCompaction` has made. */
function readItem(content: string): unknown {
  if (!content.startsWith(PREFIX)) return undefined;
  const json = Buffer.from(content.slice(PREFIX.length), 'base64url').toString('utf8');
  if (!areJsonTextsBounded([json])) return undefined;
  try {
    return parseExactly(json);
  } catch {
    return undefined;
  }
}
