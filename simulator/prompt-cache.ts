import { hash } from 'node:crypto';
import { createBoundedMap } from './bounded-map.ts';
import { prefixDigests, promptPieces } from './prompt-prefix.ts';
import { FRAMING } from './tokens.ts';
import type { WireRequest } from './wire.ts';

/**
 * Tokens of a prompt without the token factor: all, those served by a cache, and those newly written to it, if that is
 * billed. `isExtension`: the prompt begins with the whole last prompt of its key.
 */
type PromptTokens = Readonly<{ total: number; cached: number; written: number; isExtension: boolean }>;

const KEPT_KEYS = 10_000;
const KEPT_PREFIXES = 50_000;

/** The Messages API searches this many pieces for a cached prefix: the marked one and those before it. */
const LOOK_BACK = 20;

/** The Messages API caches nothing shorter, marked or not. */
const MIN_MARKED_TOKENS = 1024;

/**
 * Counts prompts and simulates the provider's cache.
 * - OpenAI's protocols: the last prompt per model and cache key, as the prefix of the next one.
 * - Messages protocol: the prefixes that end at a cache mark, for all clients. Those that end in the messages, not in
 *   tools or system, only match requests with the same tool choice.
 */
export type PromptCache = Readonly<{
  count: (request: WireRequest) => PromptTokens;
  store: (request: WireRequest) => void;
  clear: () => void;
}>;

/** An empty prompt cache. A request without cache key or mark never has a hit. */
export function createPromptCache(): PromptCache {
  const lastPrompts = createBoundedMap<string, readonly string[]>(KEPT_KEYS);
  const prefixes = createBoundedMap<string, true>(KEPT_PREFIXES);
  const keyOf = (request: WireRequest) => `${request.model}\n${request.cacheKey}`;
  return {
    count: (request) => {
      const before = request.cacheKey === '' ? undefined : lastPrompts.get(keyOf(request));
      const shared = countShared(request, before ?? []);
      const marked = request.messages && countMarked(request, request.messages.breakpoints, prefixes.get);
      const { isExtension, ...tokens } = shared;
      return { isExtension, ...tokens, ...marked };
    },
    store: (request) => {
      const digests = cachedDigests(request);
      for (const place of request.messages?.breakpoints ?? []) {
        const digest = digests[place];
        if (digest !== undefined && tokensUpTo(request, place) >= MIN_MARKED_TOKENS) prefixes.set(digest, true);
      }
      if (request.cacheKey !== '') {
        lastPrompts.set(
          keyOf(request),
          promptPieces(request).map((each) => each.digest),
        );
      }
    },
    clear: () => {
      lastPrompts.clear();
      prefixes.clear();
    },
  };
}

function countShared(request: WireRequest, before: readonly string[]): PromptTokens {
  let total: number = FRAMING.request;
  let cached = 0;
  let shared = 0;
  for (const [index, { digest, tokens }] of promptPieces(request).entries()) {
    if (shared === index && before[index] === digest) {
      shared += 1;
      cached += tokens;
    }
    total += tokens;
  }
  return { total, cached, written: 0, isExtension: shared === before.length };
}

function countMarked(
  request: WireRequest,
  breakpoints: readonly number[],
  isCached: (digest: string) => true | undefined,
): { cached: number; written: number } {
  const digests = cachedDigests(request);
  const hits = breakpoints.flatMap((place) => {
    const window = digests.slice(Math.max(0, place + 1 - LOOK_BACK), place + 1);
    const found = window.findLastIndex((digest) => isCached(digest) === true);
    return found < 0 ? [] : [place + 1 - window.length + found];
  });
  const cached = tokensUpTo(request, Math.max(-1, ...hits));
  const marked = tokensUpTo(request, Math.max(-1, ...breakpoints));
  return { cached, written: marked < MIN_MARKED_TOKENS ? 0 : Math.max(0, marked - cached) };
}

/** The keys of cached prefixes in the Messages API. Another tool choice changes only those of messages. */
function cachedDigests(request: WireRequest): readonly string[] {
  const firstMessage = request.tools.length + request.items.findIndex(({ kind }) => kind !== 'system');
  return prefixDigests(request).map((digest, place) =>
    place < firstMessage ? digest : hash('sha1', `${digest}|${String(request.toolChoice)}`),
  );
}

function tokensUpTo(request: WireRequest, place: number): number {
  return promptPieces(request)
    .slice(0, place + 1)
    .reduce((sum, { tokens }) => sum + tokens, 0);
}
