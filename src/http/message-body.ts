import { z } from '@hono/zod-openapi';
import { formatCallId, formatId } from '../domain/ids.ts';
import { MESSAGE_ROLES, type Part, partSchema } from '../domain/message.ts';
import { usageSchema } from '../domain/usage.ts';
import type { TranscriptMessage } from '../store/messages.ts';
import { timeBody, usageBody } from './responses.ts';

const ANY_JSON_REF = '#/$defs/__schema0';

/** The JSON Schema of a part. Any JSON value is a definition that refers to itself in zod's output; here it is `{}`. */
function partJsonSchema(): object {
  const { $schema, $defs, ...schema } = z.toJSONSchema(partSchema, {
    override: ({ jsonSchema: { properties } }) => {
      if (properties?.['toolCallId'] !== undefined) properties['id'] = { type: 'string' };
    },
  });
  const inlined = JSON.stringify(schema).replaceAll(JSON.stringify({ $ref: ANY_JSON_REF }), '{}');
  return { type: 'object', ...z.looseObject({}).parse(JSON.parse(inlined)) };
}

type PartBody = Part & Readonly<{ id?: string }>;
const partBody = z.custom<PartBody>().openapi('Part', partJsonSchema());

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
