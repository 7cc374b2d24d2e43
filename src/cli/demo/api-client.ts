import { z } from 'zod';
import { RUN_STATUSES } from '../../domain/run.ts';
import { toApiError } from './api-error.ts';
import { type FeedItem, followSession } from './session-feed.ts';

const REQUEST_TIMEOUT_MS = 15_000;

const sessionSchema = z.object({ id: z.string() });
const acceptedSchema = z.object({
  messageId: z.string(),
  runId: z.string(),
  queued: z.boolean(),
  position: z.number().int(),
});
const runSchema = z.object({ id: z.string(), status: z.enum(RUN_STATUSES) });

export type Accepted = z.infer<typeof acceptedSchema>;

/** The part of the HTTP API that the demo uses. Every call may throw ApiError. */
export type ApiClient = Readonly<{
  createSession: (agent: string, title: string) => Promise<{ id: string }>;
  /** Starts a run, or joins the active one. */
  send: (sessionId: string, content: string) => Promise<Accepted>;
  /** Asks a run to stop and waits for its end, but no longer than `waitMs`. */
  cancelRun: (runId: string, waitMs: number) => Promise<z.infer<typeof runSchema>>;
  follow: (sessionId: string, signal: AbortSignal) => AsyncIterable<FeedItem>;
}>;

/** A client like any other: it knows the address of the server and nothing else. */
export function createApiClient(baseUrl: string): ApiClient {
  const post = async <Schema extends z.ZodType>(
    schema: Schema,
    path: string,
    body: object,
  ): Promise<z.infer<Schema>> => {
    const response = await fetch(`${baseUrl}/v1${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    if (!response.ok) throw await toApiError(response);
    return schema.parse(await response.json());
  };
  return {
    createSession: (agent, title) => post(sessionSchema, '/sessions', { agent, title }),
    send: (sessionId, content) => post(acceptedSchema, `/sessions/${sessionId}/messages`, { content }),
    cancelRun: (runId, waitMs) => post(runSchema, `/runs/${runId}/cancel?wait=${waitMs}`, {}),
    follow: (sessionId, signal) => followSession({ url: `${baseUrl}/v1/sessions/${sessionId}/events`, signal }),
  };
}
