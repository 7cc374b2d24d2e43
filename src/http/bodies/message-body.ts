import { z } from '@hono/zod-openapi';
import { errorRecordSchema } from '../../domain/errors.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { MESSAGE_ROLES, partSchema } from '../../domain/transcript/message.ts';
import { usageSchema } from '../../domain/usage.ts';
import type { PartHistory, TranscriptMessage, TranscriptPart } from '../../store/transcript/messages.ts';
import { type JsonSchema, toJsonSchema } from './json-schema.ts';
import { timeBody, usageBody } from './responses.ts';
import { errorBody } from './run-body.ts';

const TIME = { type: 'string', format: 'date-time' };

/** The marks of a part: they change how the view shows it. The part itself stays as recorded. */
const HISTORY = {
  compactedAt: { ...TIME, description: 'When a prune has put a placeholder in its place.' },
  mediaStrippedAt: { ...TIME, description: 'When names were put in the place of its images and files.' },
  viewLimitChars: { type: 'integer', description: 'Characters beyond which the middle of its output is left out.' },
  originalTokens: { type: 'integer', description: 'Of the output or file before that, or before it was cut.' },
  truncated: { const: true, description: 'The output was cut as it came in: `outputBlobId` has the whole.' },
};

/** Properties that a tool call has besides those of the schema. */
const OF_CALL = {
  isOf: (properties: JsonSchema) => 'toolCallId' in properties,
  properties: { id: { type: 'string' }, ...HISTORY },
};
/** Properties that a file part has besides those of the schema. A file in a tool's output does not have them. */
const OF_FILE = {
  isOf: (properties: JsonSchema) =>
    'mediaType' in properties && 'providerMetadata' in properties && !('sourceId' in properties),
  properties: HISTORY,
};

type PartBody = Omit<TranscriptPart, 'history'> &
  Readonly<{ id?: string }> &
  Omit<PartHistory, 'compactedAt' | 'mediaStrippedAt'> &
  Readonly<{ compactedAt?: string; mediaStrippedAt?: string }>;
const partBody = z
  .custom<PartBody>()
  .openapi('Part', { type: 'object', ...toJsonSchema(partSchema, OF_CALL, OF_FILE) });

export const messageBody = z
  .object({
    id: z.string(),
    seq: z.int().openapi({ description: 'Its place in the transcript.' }),
    role: z.enum(MESSAGE_ROLES),
    runId: z.string().nullable(),
    step: z.int().nullable(),
    model: z.string().nullable(),
    finishReason: z.string().nullable().openapi({ description: 'Null while the message is written.' }),
    usage: usageBody.nullable(),
    error: errorBody.nullable().openapi({ description: 'Why it is not whole.' }),
    isSummary: z.boolean(),
    summaryOf: z
      .object({ round: z.int(), fromSeq: z.int(), uptoSeq: z.int() })
      .nullable()
      .openapi({ description: 'The messages that a summary stands for, and the round of compaction that wrote it.' }),
    parts: z.array(partBody),
    createdAt: timeBody,
  })
  .openapi('Message');

/** A call has an id of its own, because a provider may repeat its ids. */
function toPartBody(messageId: string, { history, ...part }: TranscriptPart, index: number): PartBody {
  const body = part.type === 'tool' ? { ...part, id: formatCallId(messageId, index) } : part;
  if (history === undefined) return body;
  const { compactedAt, mediaStrippedAt, ...marks } = history;
  return {
    ...body,
    ...marks,
    ...(compactedAt !== undefined && { compactedAt: compactedAt.toISOString() }),
    ...(mediaStrippedAt !== undefined && { mediaStrippedAt: mediaStrippedAt.toISOString() }),
  };
}

/** A message of the transcript as the API returns it. Each tool call has an id by which it can be answered. */
export function toMessageBody(message: TranscriptMessage): z.infer<typeof messageBody> {
  return {
    id: formatId('message', message.id),
    seq: message.seq,
    role: message.role,
    runId: message.runId === null ? null : formatId('run', message.runId),
    step: message.stepNo,
    model: message.model,
    finishReason: message.finishReason,
    usage: message.usage === null ? null : usageSchema.parse(message.usage),
    error: errorRecordSchema.nullable().parse(message.error),
    isSummary: message.summaryOf !== null,
    summaryOf: message.summaryOf,
    parts: message.parts.map((part, index) => toPartBody(message.id, part, index)),
    createdAt: message.createdAt.toISOString(),
  };
}
