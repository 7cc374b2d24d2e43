import { z } from '@hono/zod-openapi';
import { formatCallId, formatId } from '../domain/ids.ts';
import { MESSAGE_ROLES, type Part, partSchema } from '../domain/message.ts';
import { usageSchema } from '../domain/usage.ts';
import type { TranscriptMessage } from '../store/messages.ts';
import { toJsonSchema } from './json-schema.ts';
import { timeBody, usageBody } from './responses.ts';

/** A call has an id of its own beside that of the provider. */
const ID_OF_CALL = { beside: 'toolCallId', properties: { id: { type: 'string' } } };

type PartBody = Part & Readonly<{ id?: string }>;
const partBody = z.custom<PartBody>().openapi('Part', { type: 'object', ...toJsonSchema(partSchema, ID_OF_CALL) });

/** A message of the transcript as callers see it. */
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
    parts: z.array(partBody),
    createdAt: timeBody,
  })
  .openapi('Message');

/** A call has an id of its own: what the provider calls it may come again. */
function toPartBody(messageId: string, part: Part, index: number): PartBody {
  return part.type === 'tool' ? { ...part, id: formatCallId(messageId, index) } : part;
}

/** A message of the transcript as the API answers it; each tool call has an id by which it can be answered. */
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
    parts: message.parts.map((part, index) => toPartBody(message.id, part, index)),
    createdAt: message.createdAt.toISOString(),
  };
}
