import type { RequestRecord } from '../simulator/request.ts';
import type { Log } from '../src/platform/log.ts';
import type { StoredMessage } from './api-client.ts';
import type { MeasuredCall } from './metrics/estimator.ts';

export function outputsOf(transcript: readonly StoredMessage[]): string[] {
  return transcript.flatMap(({ parts }) =>
    parts.flatMap((part) => {
      if (part.type !== 'tool' || part.output === undefined || !('value' in part.output)) return [];
      const { value } = part.output;
      return [typeof value === 'string' ? value : JSON.stringify(value)];
    }),
  );
}

type Measure = Omit<MeasuredCall, 'real'>;

/** Collects the service's measure of each request that it sends for a step. */
export function createMeasureLog(log: Log): { log: Log; measures: readonly Measure[] } {
  const measures: Measure[] = [];
  return {
    measures,
    log: (level, event) => {
      if (event.event === 'context_measured') {
        measures.push({ measured: event.tokens, isAnchored: event.isAnchored });
      }
      log(level, event);
    },
  };
}

/** The measure of each request with its real tokens, matched by order: a session sends one request at a time. */
export function measuredCalls(
  measures: readonly Measure[],
  records: readonly Pick<RequestRecord, 'summary' | 'promptTokens'>[],
): MeasuredCall[] {
  const steps = records.filter(({ summary }) => !summary);
  return measures.flatMap((measure, index) => {
    const record = steps[index];
    return record === undefined ? [] : [{ ...measure, real: record.promptTokens }];
  });
}
