import { hash } from 'node:crypto';

/** In place of the digest of a prompt: the signature holds after any. */
export const UNBOUND = '';

/**
 * The signature of a thinking block, valid for that model and text only and bound to the answered prompt. It is checked
 * without stored state, so it survives a restart of the simulator.
 */
export function signThinking(model: string, text: string, promptDigest: string): string {
  return `sig_${promptDigest}_${proof(model, text, promptDigest)}`;
}

/** The digest of the bound prompt. Undefined: this simulator never signed that text for that model. */
export function verifyThinking(model: string, text: string, signature: string): string | undefined {
  const [prefix, promptDigest = '', proven] = signature.split('_');
  return prefix === 'sig' && proven === proof(model, text, promptDigest) ? promptDigest : undefined;
}

function proof(model: string, text: string, promptDigest: string): string {
  return hash('sha256', `baton-simulator|${model}|${promptDigest}|${text}`).slice(0, 24);
}
