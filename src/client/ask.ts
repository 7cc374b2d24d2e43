import { BatonError } from './baton-error.ts';
import type { OutputFormat } from './contract.ts';
import type { BatonClient, SendOptions } from './methods.ts';
import type { RunResult } from './result.ts';
import { isStandardSchema, jsonSchemaOf, parseBy, type StandardSchema } from './standard-schema.ts';

type Output = NonNullable<SendOptions['output']>;

/** @throws BatonError `invalid_request` for a schema without a JSON Schema of an object */
export function toOutputFormat(output: Output): OutputFormat {
  if (!isStandardSchema(output)) return output;
  try {
    return { schema: jsonSchemaOf(output) };
  } catch (cause) {
    throw new BatonError('invalid_request', `output: ${wordsOf(cause)}`, { status: null, cause });
  }
}

/**
 * Sends a message and waits for the result of its run.
 * @throws BatonError with the code of a failed run; `requires_action`; `output_invalid` where the schema refuses the result
 */
export function askBy({ send, runs }: Pick<BatonClient, 'send'> & { runs: Pick<BatonClient['runs'], 'result'> }) {
  return async (sessionId: string, content: Parameters<BatonClient['send']>[1], options: SendOptions = {}) => {
    const { runId } = await send(sessionId, content, options);
    const result = await runs.result(runId, { signal: options.signal });
    const { run, output } = result;
    if (run.status === 'requires_action') {
      const calls = run.requiredActions.map(({ toolName, id }) => `${toolName} (${id})`).join(', ');
      const message = `the run ${runId} waits for answers to its calls: ${calls}. Give them with runs.answer`;
      throw new BatonError('requires_action', message, { status: null, run });
    }
    const schema = options.output;
    if (schema === undefined || !isStandardSchema(schema) || output === null) return result as RunResult<never>;
    return { ...result, output: await parsed(schema, output, runId) } as RunResult<never>;
  };
}

async function parsed(schema: StandardSchema, output: unknown, runId: string): Promise<unknown> {
  try {
    return await parseBy(schema, output);
  } catch (cause) {
    const message = `the result of ${runId} is refused by its schema: ${wordsOf(cause)}`;
    throw new BatonError('output_invalid', message, { status: null, cause });
  }
}

const wordsOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
