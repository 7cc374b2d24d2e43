import type { Instructions, ModelMessage } from 'ai';
import { CACHE_BREAKPOINT, withCacheBreakpoints } from '../domain/model/cache-breakpoints.ts';
import { callIdFormOf } from '../domain/model/model-calls.ts';
import type { MediaContents } from '../domain/model/model-files.ts';
import type { ModelMessage as ShownMessage } from '../domain/model/model-message.ts';
import { type ToModelOptions, toModelMessages } from '../domain/model/model-messages.ts';
import { sendsFilesAfterResults } from '../domain/model/shown-media.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import type { ResolvedModel } from './model-port.ts';

/** A request to a model without tools and settings, in the SDK's form. */
export type ModelPrompt = Readonly<{ instructions?: Instructions; messages: ModelMessage[] }>;

/** The same with the messages as the domain makes them. */
type ShownPrompt = Omit<ModelPrompt, 'messages'> & Readonly<{ messages: ShownMessage[] }>;

/**
 * The prompt of a request, in the form that its provider takes and caches.
 * @param media the files that the view refers to as blobs; a notice replaces a missing one
 * @param model `provider/model` of the request; only its own messages keep their reasoning
 */
export function promptFor(
  {
    providerTools = true,
    cacheBreakpoints = false,
    protocol,
    calls,
    notice,
  }: ResolvedModel & Pick<ToModelOptions, 'calls' | 'notice'>,
  model: string,
  {
    instructions,
    view,
    media,
  }: Readonly<{ instructions: string; view: readonly ViewMessage[]; media?: MediaContents }>,
): ShownPrompt {
  const filesAfterResults = sendsFilesAfterResults(protocol);
  const callIds = callIdFormOf(protocol);
  const messages = toModelMessages(view, { model, providerTools, calls, callIds, filesAfterResults, media, notice });
  if (!cacheBreakpoints) return { ...(instructions !== '' && { instructions }), messages };
  // Tools come before the instructions in a prompt, so this mark covers them too.
  const marked = { role: 'system' as const, content: instructions, providerOptions: CACHE_BREAKPOINT };
  return { ...(instructions !== '' && { instructions: marked }), messages: withCacheBreakpoints(messages) };
}

/** The SDK must not fetch URLs for a provider: a worker reaches addresses that the author of a URL must not. */
export const leaveToProvider = async (files: readonly unknown[]): Promise<null[]> => files.map(() => null);
