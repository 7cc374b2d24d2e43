import { readFileSync } from 'node:fs';
import type { BatonClient, Delivery, OutputFormat, RunLimits, SendOptions, SentMessage } from '../client/client.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { oneOf, wholeNumber, writeJson, writeLine } from './remote.ts';
import { watchWhatFollows } from './watch-run.ts';

const DELIVERIES = ['steer', 'followup', 'interrupt', 'reject'] as const satisfies readonly Delivery[];

export const LIMIT_OPTIONS = { 'max-steps': { type: 'string' }, 'max-tokens': { type: 'string' } } as const;

export const LIMIT_USAGE = '  --max-steps N, --max-tokens N   end the run as incomplete beyond these limits';

export const MESSAGE_OPTIONS = {
  delivery: { type: 'string' },
  schema: { type: 'string' },
  ...LIMIT_OPTIONS,
  follow: { type: 'boolean', default: false },
} as const;

export const MESSAGE_USAGE = `  --follow          show what happens until the run has ended or waits for an answer
  --delivery WHAT   delivery to a session at work: ${DELIVERIES.join(', ')} (default: steer)
  --schema FILE     JSON Schema of the result, which "baton result" prints
${LIMIT_USAGE}`;

type GivenLimits = Readonly<{ 'max-steps'?: string; 'max-tokens'?: string }>;
type Given = GivenLimits & Readonly<{ delivery?: string; schema?: string }>;

/** @throws UsageError */
export function readLimits(options: GivenLimits): RunLimits {
  const maxSteps = wholeNumber('--max-steps', options['max-steps']);
  const maxTokens = wholeNumber('--max-tokens', options['max-tokens']);
  return { ...(maxSteps !== undefined && { maxSteps }), ...(maxTokens !== undefined && { maxTokens }) };
}

/** @throws UsageError */
export function readSendOptions({ delivery, schema, ...limits }: Given): SendOptions {
  return {
    ...(schema !== undefined && { output: { schema: readSchema(schema) } }),
    ...(delivery !== undefined && { delivery: oneOf('--delivery', DELIVERIES, delivery) }),
    limits: readLimits(limits),
  };
}

/** The service checks that it is a schema. @throws UsageError if the file has no JSON object */
function readSchema(file: string): OutputFormat['schema'] {
  try {
    const schema: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof schema === 'object' && schema !== null) return { type: 'object', ...schema };
  } catch (error) {
    throw new UsageError(`--schema ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  throw new UsageError(`--schema ${file}: it has no JSON object.`);
}

type Message = Readonly<{
  sessionId: string;
  text: string;
  options: SendOptions;
  isJson: boolean;
  isFollowed: boolean;
}>;

/** Sends a message, prints where it went, and shows its run if wanted. Resolves with the exit code. */
export async function deliver(client: BatonClient, message: Message): Promise<number> {
  const { sessionId, text, options, isJson, isFollowed } = message;
  if (!isFollowed) {
    tell(sessionId, await client.send(sessionId, text, options), isJson);
    return EXIT.done;
  }
  return watchWhatFollows(client, sessionId, isJson, async () => {
    const sent = await client.send(sessionId, text, options);
    tell(sessionId, sent, isJson);
    return { runId: sent.runId, mayWait: sent.queued };
  });
}

function tell(sessionId: string, sent: SentMessage, isJson: boolean): void {
  if (isJson) writeJson({ sessionId, ...sent });
  else writeLine(`session    ${sessionId}\nrun        ${sent.runId}`);
  if (!isJson && sent.queued) writeLine(`queued     at position ${sent.position}: message ${sent.messageId}`);
}
