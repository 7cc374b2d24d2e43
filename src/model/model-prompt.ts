import type { Instructions, ModelMessage } from 'ai';
import { CACHE_BREAKPOINT, withCacheBreakpoints } from '../domain/model/cache-breakpoints.ts';
import type { MediaContents } from '../domain/model/model-files.ts';
import { type ToModelOptions, toModelMessages } from '../domain/model/model-messages.ts';
import { sendsFilesAfterResults } from '../domain/model/shown-media.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import type { ResolvedModel } from './model-port.ts';

/** What a model is sent besides tools and settings, in the SDK's form. */
export type ModelPrompt = Readonly<{ instructions?: Instructions; messages: ModelMessage[] }>;

/**
 * The prompt of a request, in the form that its provider takes and caches.
 * @param media the files that the view refers to as blobs; a notice stands for what is not there
 * @param model `provider/model` that the request goes to: only what it wrote itself keeps its reasoning
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
  instructions: string,
  view: readonly ViewMessage[],
  media?: MediaContents,
): ModelPrompt {
  const filesAfterResults = sendsFilesAfterResults(protocol);
  const messages = toModelMessages(view, { model, providerTools, calls, filesAfterResults, media, notice });
  if (!cacheBreakpoints) return { ...(instructions !== '' && { instructions }), messages };
  // Tools come before the instructions in a prompt, so this mark covers them too.
  const marked = { role: 'system' as const, content: instructions, providerOptions: CACHE_BREAKPOINT };
  return { ...(instructions !== '' && { instructions: marked }), messages: withCacheBreakpoints(messages) };
}

/**
 * The SDK would fetch what a provider does not fetch from a URL by itself: a worker reaches more than whoever named the
 * URL may, so that it fetches nothing.
 */
export const leaveToProvider = async (files: readonly unknown[]): Promise<null[]> => files.map(() => null);
