import { formatCallId, formatId } from '../ids.ts';
import { outputText } from '../transcript/output-text.ts';
import type { CallOutcome, PlacedCall } from '../transcript/required-action.ts';
import { keepHeadAndTail } from '../truncate.ts';
import type { NewEvent } from './events.ts';

/** Characters of a result in its event; the transcript has the whole. */
const EVENT_RESULT_CHARS = 2_000;

export function callEvent(messageId: string, { index, part }: PlacedCall): NewEvent {
  const { toolName, input: args, toolCallId: callId } = part;
  const id = formatCallId(messageId, index);
  return { type: 'llm:tool-call', data: { id, messageId: formatId('message', messageId), toolName, args, callId } };
}

export function callResultEvent(messageId: string, { index, part }: PlacedCall, outcome: CallOutcome): NewEvent {
  const { text: sanitized, truncated } = keepHeadAndTail(outputText(outcome.output), EVENT_RESULT_CHARS);
  return {
    type: 'llm:tool-result',
    data: {
      id: formatCallId(messageId, index),
      messageId: formatId('message', messageId),
      toolName: part.toolName,
      callId: part.toolCallId,
      success: outcome.state === 'completed',
      sanitized,
      ...(truncated && { truncated }),
    },
  };
}
