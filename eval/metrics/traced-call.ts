import { type Recording, stepsOf, wasTaken } from '../../simulator/recording.ts';
import type { RequestRecord, SimulatedRequest } from '../../simulator/request.ts';

export type TracedCall = Pick<
  RequestRecord,
  | 'request'
  | 'promptTokens'
  | 'cachedTokens'
  | 'extendsPrefix'
  | 'summary'
  | 'refusal'
  | 'usage'
  | 'outcome'
  | 'violationClasses'
>;

/** A step's request that was answered completely. `step` is the index of the recorded step that answered it. */
export type StepCall = TracedCall & Readonly<{ step: number; request: SimulatedRequest }>;

/** Requests that the provider began to answer, and bills. */
export function servedCalls(calls: readonly TracedCall[]): TracedCall[] {
  return calls.filter(({ usage }) => usage !== undefined);
}

/**
 * The answered steps in their order, without summaries and without refused, cut or aborted requests. If the service
 * stopped an answer near its end and asked again, both requests are there.
 */
export function stepCalls(recording: Recording, calls: readonly TracedCall[]): StepCall[] {
  const steps = stepsOf(recording);
  const found: StepCall[] = [];
  for (const call of calls) {
    const { request, summary, outcome } = call;
    if (summary || outcome !== 'completed' || request === undefined) continue;
    const before = found.at(-1)?.step ?? -1;
    const last = steps[before];
    const isRepeat = last !== undefined && !wasTaken(last, request);
    found.push({ ...call, request, step: isRepeat ? before : before + 1 });
  }
  return found;
}

/** The whole text of a request's messages: texts, inputs of calls and results. */
export function textOfRequest({ messages }: SimulatedRequest): string {
  return messages
    .flatMap(({ text, toolCalls, toolResults }) => [
      text,
      ...toolCalls.map(({ input }) => (typeof input === 'string' ? input : (JSON.stringify(input) ?? ''))),
      ...toolResults.map(({ output }) => output),
    ])
    .join('\n');
}
