import { z } from 'zod';

/** A response that its provider goes on making when the connection is gone, and gives again by its id. */
export const providerResponseSchema = z.object({
  id: z.string().min(1).max(500),
  /** The name of the provider, as in `provider/model`. */
  provider: z.string(),
  /** Of the whole request: another request has another answer. */
  requestSha256: z.string(),
});
export type ProviderResponse = Readonly<z.infer<typeof providerResponseSchema>>;

/** An attempt at a step whose answer was dropped. */
export type DroppedAttempt = Readonly<{
  response: ProviderResponse;
  finishReason: string | null;
  hasError: boolean;
}>;

/** An answer that broke off so often is asked for anew. */
const MAX_FAILURES = 2;

/**
 * The response that the next attempt reads again, if its request is the same. Null: the model is asked. An answer that
 * was dropped for what it said, or for its size, is not wanted again.
 * @param dropped the newest first
 */
export function responseToReadAgain(dropped: readonly DroppedAttempt[]): ProviderResponse | null {
  const [newest] = dropped;
  if (newest === undefined) return null;
  const wasLeft = newest.finishReason === null && !newest.hasError;
  const failures = dropped.filter(
    ({ response, finishReason }) => response.id === newest.response.id && finishReason === 'error',
  ).length;
  const brokeOff = newest.finishReason === 'error' && failures < MAX_FAILURES;
  return wasLeft || brokeOff ? newest.response : null;
}
