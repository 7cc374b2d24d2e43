import type { z } from '@hono/zod-openapi';
import type { messageBody, PartBody } from '../../api/message-body.ts';
import { errorRecordSchema } from '../../domain/errors.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import type { TranscriptPart } from '../../domain/transcript/part-history.ts';
import { usageSchema } from '../../domain/usage.ts';
import type { TranscriptMessage } from '../../store/transcript/messages.ts';

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
