import { BatonError } from '../domain/errors.ts';
import type { ObjectSchema } from '../domain/object-schema.ts';
import { type CheckedOutput, checkOutput, isQuickToCheck } from '../domain/run/output-check.ts';
import type { Json } from '../domain/transcript/message.ts';
import { OUTPUT_CHECK_TIMEOUT_MS } from '../domain/tunables.ts';
import { runInThread, threadModule } from './run-in-thread.ts';

const THREAD = threadModule(new URL('./output-check-thread.ts', import.meta.url));

/**
 * Whether a value fits the schema. A schema that may take long works in a thread of its own: its author is a client, and
 * the process has other work. A value that takes longer than 5 s counts as one that does not fit.
 * @throws the signal's reason; BatonError `internal` if the thread failed
 */
export async function checkInTime(schema: ObjectSchema, value: Json, signal: AbortSignal): Promise<CheckedOutput> {
  if (isQuick(schema)) return checkOutput(schema, value);
  try {
    // As text: a value that keeps its digits or the order of its keys cannot be cloned.
    const texts = { schema: JSON.stringify(schema), value: JSON.stringify(value) };
    const checked = await runInThread<CheckedOutput>(THREAD, texts, OUTPUT_CHECK_TIMEOUT_MS, signal);
    return 'problem' in checked ? checked : { value };
  } catch (error) {
    if (!(error instanceof BatonError) || error.code !== 'timeout') throw error;
    return { problem: `It could not be checked within ${OUTPUT_CHECK_TIMEOUT_MS} ms: give a shorter one.` };
  }
}

/** A tool's schema is asked about at every call. */
const quick = new WeakMap<ObjectSchema, boolean>();

function isQuick(schema: ObjectSchema): boolean {
  const is = quick.get(schema) ?? isQuickToCheck(schema);
  quick.set(schema, is);
  return is;
}
