import { hash } from 'node:crypto';

/**
 * The signature of a thinking block: it holds for that model and text only, and is bound to the prompt that the
 * thinking answered. Checkable without a memory, so it also survives a restart of the simulator.
 */
export function signThinking(model: string, text: string, promptDigest: string): string {
  return `sig_${promptDigest}_${proof(model, text, promptDigest)}`;
}

/** The digest of the prompt it is bound to, or undefined when this simulator never signed that text for that model. */
export function verifyThinking(model: string, text: string, signature: string): string | undefined {
  const [prefix, promptDigest = '', proven] = signature.split('_');
  return prefix === 'sig' && proven === proof(model, text, promptDigest) ? promptDigest : undefined;
}

function proof(model: string, text: string, promptDigest: string): string {
  return hash('sha256', `baton-simulator|${model}|${promptDigest}|${text}`).slice(0, 24);
}
