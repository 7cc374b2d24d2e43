import { hash, randomBytes } from 'node:crypto';

/**
 * Opaque reasoning as the simulator issues it: `enc_<model>_<tokens>.<nonce>.<signature>`. The signature is checked
 * without stored state, so it survives a restart of the simulator.
 */
export function issueReasoning(model: string, tokens: number): string {
  const nonce = randomBytes(8).toString('hex');
  return `enc_${model}_${tokens}.${nonce}.${signature(model, tokens, nonce)}`;
}

/** Tokens of the reasoning behind an opaque text. Undefined: this simulator did not issue it for that model. */
export function verifyReasoning(model: string, encrypted: string): number | undefined {
  const prefix = `enc_${model}_`;
  if (!encrypted.startsWith(prefix)) return undefined;
  const [tokenText = '', nonce = '', signed = ''] = encrypted.slice(prefix.length).split('.');
  const tokens = Number(tokenText);
  return Number.isInteger(tokens) && signed === signature(model, tokens, nonce) ? tokens : undefined;
}

function signature(model: string, tokens: number, nonce: string): string {
  return hash('sha256', `baton-simulator|${model}|${tokens}|${nonce}`).slice(0, 24);
}
