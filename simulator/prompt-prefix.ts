import { hash } from 'node:crypto';
import type { WireRequest } from './wire.ts';

type PromptPiece = Readonly<{ digest: string; tokens: number }>;

/** The pieces of a prompt in the order in which providers read them: tools come before the items. */
export function promptPieces(request: WireRequest): readonly PromptPiece[] {
  return [...request.tools, ...request.items];
}

const prefixes = new WeakMap<WireRequest, readonly string[]>();

/** For each piece of the prompt, the digest of everything up to and including it. */
export function prefixDigests(request: WireRequest): readonly string[] {
  const found = prefixes.get(request);
  if (found !== undefined) return found;
  let digest = request.model;
  const digests = promptPieces(request).map((piece) => {
    digest = hash('sha1', `${digest}|${piece.digest}`);
    return digest;
  });
  prefixes.set(request, digests);
  return digests;
}

/** The digest of the whole prompt. A thinking signature is bound to it. */
export function promptDigest(request: WireRequest): string {
  return prefixDigests(request).at(-1) ?? '';
}
