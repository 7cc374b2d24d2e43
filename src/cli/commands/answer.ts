import type { Json, ToolCallAnswer } from '../../client/client.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { watchWhatFollows } from '../watch-run.ts';

export const usage = `baton answer [options] RUN CALL approve|deny
baton answer [options] RUN CALL --output JSON

Answers a tool call that a run waits for.

  --args JSON       with approve: arguments that replace the model's
  --reason TEXT     with deny: the reason, which the model reads
  --output JSON     output of a call that the caller runs
  --error           mark the output as the reason why the call failed
  --follow          show what happens after the answer
${REMOTE_USAGE}`;

const OPTIONS = {
  args: { type: 'string' },
  reason: { type: 'string' },
  output: { type: 'string' },
  error: { type: 'boolean' },
  follow: { type: 'boolean', default: false },
} as const;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, OPTIONS);
  const [run = '', call = '', ...rest] = positionals;
  const ids = takeArguments([run, call], 'run', 'call');
  const answer = readAnswer(rest, values);
  const give = async () => {
    const answered = await client.runs.answer(ids.run, ids.call, answer);
    if (isJson) writeJson(answered);
    else writeLine(answered.open === 0 ? 'The run goes on.' : `The run waits for ${answered.open} more.`);
    return { runId: ids.run, mayWait: answered.open > 0 };
  };
  if (!values.follow) return give().then(() => EXIT.done);
  const { sessionId } = await client.runs.get(ids.run);
  return watchWhatFollows(client, sessionId, isJson, give);
}

type Given = Readonly<{ args?: string; reason?: string; output?: string; error?: boolean }>;

function readAnswer(rest: readonly string[], { args, reason, output, error }: Given): ToolCallAnswer {
  if (output === undefined && error === true) throw new UsageError('--error belongs to an --output.');
  if (output !== undefined) {
    takeArguments(rest);
    if (reason !== undefined) throw new UsageError('--reason belongs to a denial.');
    if (args !== undefined) throw new UsageError('--args belongs to an approval.');
    return { output: readJson(output), ...(error === true && { isError: true }) };
  }
  const decision = oneOf('the decision', ['approve', 'deny'], takeArguments(rest, 'decision').decision);
  if (decision === 'deny' && args !== undefined) throw new UsageError('--args belongs to an approval.');
  if (decision === 'deny') return { decision, ...(reason !== undefined && { reason }) };
  if (reason !== undefined) throw new UsageError('--reason belongs to a denial.');
  return { decision, ...(args !== undefined && { args: readArguments(args) }) };
}

function readArguments(text: string): Readonly<Record<string, Json>> {
  const refusal = new UsageError('--args takes a JSON object: --args \'{"amount": 9}\'.');
  try {
    const value = parseExactly(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, Json>;
  } catch (cause) {
    refusal.cause = cause;
  }
  throw refusal;
}

function readJson(text: string): Json {
  try {
    return parseExactly(text) as Json;
  } catch {
    throw new UsageError('--output takes JSON: a text has quotes of its own, \'"done"\'.');
  }
}
