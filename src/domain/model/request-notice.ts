import { type OutputFormat, type OutputState, RESULT_TOOL } from '../run/output-format.ts';
import type { LimitReason } from '../run/run.ts';
import { finalAnswerNotice } from './model-frames.ts';
import type { OutputBy } from './output-rules.ts';

/** The notice that ends a request; it is not in the transcript. Undefined: none does. */
export function requestNotice(
  finalAnswerFor: LimitReason | null,
  output: Readonly<{ format: OutputFormat; state: OutputState }> | null,
  by: OutputBy | null,
): string | undefined {
  if (finalAnswerFor !== null) return finalAnswerNotice(finalAnswerFor);
  return output === null || by === null ? undefined : outputNotice(output.format, output.state, by);
}

/** Of a request for a result by a schema. */
function outputNotice({ schema }: OutputFormat, { problem }: OutputState, by: OutputBy): string | undefined {
  const isAny = Object.keys(schema).every((key) => key === 'type');
  const wrong = problem === undefined ? '' : ` The last answer is not what was asked for:\n${problem}\n`;
  const opening = `[System notice, not from the user]${wrong}`;
  if (by === 'text') {
    const fitting = isAny ? '' : ` that fits this JSON Schema:\n${JSON.stringify(schema)}`;
    return `${opening} Give the result now, as one JSON object and nothing else${fitting}`;
  }
  // OpenAI refuses a request for any JSON object in which the word does not occur.
  if (problem === undefined) return by === 'native' && isAny ? `${opening} Answer with one JSON object.` : undefined;
  const again =
    by === 'tool' ? `Call ${RESULT_TOOL} with the result.` : 'Give the result again, as JSON that fits its schema.';
  return `${opening} ${again}`;
}
