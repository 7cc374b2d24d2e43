import type { RecordedStep } from '../simulator/recording.ts';
import type { Json, Part } from '../src/domain/transcript/message.ts';
import { sanitizeText } from '../src/tools/sanitize-text.ts';

/**
 * The expected parts of a recorded step, without provider metadata. Characters that Postgres or UTF-8 cannot hold (NUL,
 * lone surrogates) are expected as U+FFFD.
 */
export function expectedParts(step: RecordedStep): Part[] {
  const text = (type: 'reasoning' | 'text', value: string): Part[] =>
    value === '' ? [] : [{ type, text: sanitizeText(value) }];
  return [
    { type: 'step-start' },
    ...text('reasoning', step.reasoning ?? ''),
    ...text('text', step.text),
    ...step.toolCalls.map(
      (call): Part => ({
        type: 'tool',
        toolCallId: call.id,
        toolName: call.name,
        input: storableInput(call.input),
        state: call.isError === true ? 'error' : 'completed',
        output: { type: call.isError === true ? 'error-text' : 'text', value: sanitizeText(call.output) },
      }),
    ),
  ];
}

/** A recorded input as it is stored: every text in it is sanitized. */
function storableInput(input: unknown): Json {
  return JSON.parse(JSON.stringify(input), (_key, value: unknown) => {
    if (typeof value === 'string') return sanitizeText(value);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [sanitizeText(key), item]));
  }) as Json;
}
