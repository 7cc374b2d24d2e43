import { z } from '@hono/zod-openapi';
import { MESSAGE_ROLES, partSchema } from '../domain/transcript/message.ts';
import type { PartHistory, TranscriptPart } from '../domain/transcript/part-history.ts';
import { type JsonSchema, toJsonSchema } from './json-schema.ts';
import { orNull, timeBody, usageBody } from './responses.ts';
import { errorBody } from './run-body.ts';

const TIME = { type: 'string', format: 'date-time' };

/** The marks of a part: they change how the view shows it. The part itself stays as recorded. */
const HISTORY = {
  compactedAt: { ...TIME, description: 'Time at which a prune put a placeholder in place of the part.' },
  mediaStrippedAt: { ...TIME, description: 'Time at which names replaced the images and files of the part.' },
  viewLimitChars: {
    type: 'integer',
    description: 'Characters beyond which the view leaves out the middle of the output.',
  },
  originalTokens: { type: 'integer', description: 'Tokens of the output or file before it was cleared or cut.' },
  truncated: { const: true, description: 'True: the output was cut as it came in. `outputBlobId` has all of it.' },
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

export type PartBody = Omit<TranscriptPart, 'history'> &
  Readonly<{ id?: string }> &
  Omit<PartHistory, 'compactedAt' | 'mediaStrippedAt'> &
  Readonly<{ compactedAt?: string; mediaStrippedAt?: string }>;

const partBody = z
  .custom<PartBody>()
  .openapi('Part', { type: 'object', ...toJsonSchema(partSchema, OF_CALL, OF_FILE) });

export const messageBody = z
  .object({
    id: z.string(),
    seq: z.int().openapi({ description: 'Place of the message in the transcript.' }),
    role: z.enum(MESSAGE_ROLES),
    runId: z.string().nullable(),
    step: z.int().nullable(),
    model: z.string().nullable(),
    finishReason: z
      .string()
      .nullable()
      .openapi({ description: 'Reason why the model stopped. null while the message is written.' }),
    usage: orNull(usageBody),
    error: orNull(errorBody).openapi({ description: 'Error because of which the message is incomplete.' }),
    isSummary: z.boolean(),
    summaryOf: z
      .object({ round: z.int(), fromSeq: z.int(), uptoSeq: z.int() })
      .nullable()
      .openapi({ description: 'The messages that a summary stands for, and the round of compaction that wrote it.' }),
    parts: z.array(partBody),
    createdAt: timeBody,
  })
  .openapi('Message');
