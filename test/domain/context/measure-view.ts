import type { Json, Part, ProviderMetadata, ToolPart, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { NO_USAGE, type Usage } from '../../../src/domain/usage.ts';

export const MODEL = 'anthropic/claude-opus-4-5';

const SIGNED: ProviderMetadata = { anthropic: { signature: 'c2ln' } };

export const textOf = (text: string): Part => ({ type: 'text', text });

export const signedReasoning = (text: string): Part => ({ type: 'reasoning', text, providerMetadata: SIGNED });

/** A call that is done. */
export function callOf(input: Json, value: string, rest: Partial<ToolPart> = {}): ToolPart {
  return {
    type: 'tool',
    toolCallId: 'call_1',
    toolName: 'read',
    input,
    state: 'completed',
    output: { type: 'text', value },
    ...rest,
  };
}

export function userOf(seq: number, ...parts: Part[]): ViewMessage {
  return { id: `m${seq}`, seq, role: 'user', model: null, parts };
}

export function assistantOf(seq: number, ...parts: Part[]): ViewMessage {
  return { id: `m${seq}`, seq, role: 'assistant', model: MODEL, parts };
}

export const usageOf = (usage: Partial<Usage>): Usage => ({ ...NO_USAGE, ...usage });
