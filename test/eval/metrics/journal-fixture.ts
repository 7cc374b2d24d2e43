import type { TracedCall } from '../../../eval/metrics/traced-call.ts';
import type { SimulatedMessage, SimulatedRequest } from '../../../simulator/request.ts';

export const said = (role: SimulatedMessage['role'], text: string, more: Partial<SimulatedMessage> = {}) => ({
  role,
  text,
  toolCalls: [],
  toolResults: [],
  parts: [],
  ...more,
});

export const resultOf = (id: string, output: string) => said('tool', '', { toolResults: [{ id, output }] });

export function requestOf(...messages: readonly SimulatedMessage[]): SimulatedRequest {
  return {
    protocol: 'responses',
    model: 'm',
    system: '',
    messages,
    tools: [],
    cacheKey: 'k',
    maxOutputTokens: undefined,
    toolChoice: undefined,
    stream: true,
    index: 0,
  };
}

/** A step that was answered whole, unless told otherwise. */
export function callOf(more: Partial<TracedCall> = {}): TracedCall {
  return {
    request: requestOf(said('user', 'Go.')),
    promptTokens: 100,
    cachedTokens: 0,
    extendsPrefix: true,
    summary: false,
    refusal: undefined,
    usage: { input: 100, cacheRead: 0, cacheWrite: 0, output: 10, reasoning: 0 },
    outcome: 'completed',
    violationClasses: [],
    ...more,
  };
}

export const refused = (more: Partial<TracedCall>) => callOf({ usage: undefined, outcome: 'refused', ...more });
