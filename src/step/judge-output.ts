import type { JobScope } from '../claims/job-scope.ts';
import type { OutputRequest } from '../domain/model/output-rules.ts';
import type { ObjectSchema } from '../domain/object-schema.ts';
import { type CheckedOutput, readJson } from '../domain/run/output-check.ts';
import { RESULT_TOOL } from '../domain/run/output-format.ts';
import { type OutputVerdict, verdictOfCalls } from '../domain/run/output-verdict.ts';
import type { FinishReason, Json, Part } from '../domain/transcript/message.ts';
import { checkInTime } from '../tools/check-output.ts';

type Judged = Readonly<{
  /** Of the answer, with the outcomes of its calls. */
  parts: readonly Part[];
  finishReason: FinishReason;
  toolCalls: number;
}>;

/**
 * Whether the answer is the result that the run was asked for. Null: the run was asked for none, or goes on anyway.
 * @param request null: the step was not asked for it
 */
export async function judgeOutput(
  { output }: Pick<JobScope, 'output'>,
  request: OutputRequest | null,
  { parts, finishReason, toolCalls }: Judged,
): Promise<OutputVerdict | null> {
  if (output === null || request === null) return null;
  const { format, state } = output;
  const called = verdictOfCalls(parts, state);
  if (called !== null || toolCalls > 0 || finishReason === 'aborted') return called;
  if (request.by === 'later') return { kind: 'last', state };
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
  const read = readJson(text);
  const checked = 'values' in read ? await firstThatFits(format.schema, read.values) : read;
  if ('value' in checked) return { kind: 'fits', value: checked.value };
  const why = finishReason === 'length' ? `It was cut off at its greatest length. ${checked.problem}` : checked.problem;
  return { kind: 'misfits', problem: request.by === 'tool' ? `Call ${RESULT_TOOL}. ${why}` : why, state };
}

/** The first value that fits the schema, or the problem of the likeliest. */
async function firstThatFits(schema: ObjectSchema, values: readonly Json[]): Promise<CheckedOutput> {
  let problem: CheckedOutput | null = null;
  for (const value of values) {
    const checked = await checkInTime(schema, value, UNTIL_TIMEOUT);
    if ('value' in checked) return checked;
    problem ??= checked;
  }
  return problem ?? { problem: 'The answer is not JSON.' };
}

/** The answer is whole: it is judged even while the worker stops. */
const UNTIL_TIMEOUT = new AbortController().signal;
