import type { BatonClient, Delivery, SendOptions, SentMessage } from '../client/client.ts';
import { EXIT } from './exit-codes.ts';
import { oneOf, wholeNumber, writeJson, writeLine } from './remote.ts';
import { watchWhatFollows } from './watch-run.ts';

const DELIVERIES = ['steer', 'followup', 'interrupt', 'reject'] as const satisfies readonly Delivery[];

export const MESSAGE_OPTIONS = {
  delivery: { type: 'string' },
  'max-steps': { type: 'string' },
  'max-tokens': { type: 'string' },
  follow: { type: 'boolean', default: false },
} as const;

export const MESSAGE_USAGE = `  --follow          show what happens until the run has ended or waits for an answer
  --delivery WHAT   to a session at work: ${DELIVERIES.join(', ')} (default: steer)
  --max-steps N, --max-tokens N   end the run as incomplete beyond that`;

type Given = Readonly<{ delivery?: string; 'max-steps'?: string; 'max-tokens'?: string }>;

/** @throws UsageError */
export function readSendOptions({ delivery, ...limits }: Given): SendOptions {
  const maxSteps = wholeNumber('--max-steps', limits['max-steps']);
  const maxTokens = wholeNumber('--max-tokens', limits['max-tokens']);
  return {
    ...(delivery !== undefined && { delivery: oneOf('--delivery', DELIVERIES, delivery) }),
    limits: { ...(maxSteps !== undefined && { maxSteps }), ...(maxTokens !== undefined && { maxTokens }) },
  };
}

type Message = Readonly<{
  sessionId: string;
  text: string;
  options: SendOptions;
  isJson: boolean;
  isFollowed: boolean;
}>;

/** Sends a message, says what came of it, and shows its run if that is wanted. Resolves with the exit code. */
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
