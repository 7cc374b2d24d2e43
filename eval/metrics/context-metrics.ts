import type { Recording } from '../../simulator/recording.ts';
import { contentTokens, costUnits, largestMessageTokens, type RawConversation, rawConversation } from './costs.ts';
import { type EstimatorErrors, estimatorErrors, type MeasuredCall } from './estimator.ts';
import { keptNeedles, type Needle } from './needles.ts';
import { prunableTokens } from './prunable.ts';
import { editedFiles, errorResultsKept, fileRecall, stepsWithoutUser } from './retention.ts';
import { quantile, rounded } from './statistics.ts';
import { servedCalls, stepCalls, type TracedCall, textOfRequest } from './traced-call.ts';

/** The complete data of a replay: from the simulated provider, the event log and the database. */
export type ReplayTrace = Readonly<{
  recording: Recording;
  needles: readonly Needle[];
  /** The provider's log, in the order of arrival. */
  calls: readonly TracedCall[];
  events: readonly Readonly<{ type: string; data: Readonly<Record<string, unknown>> }>[];
  usableTokens: number;
  /** Tool outputs that can be read again by their reference. */
  storedOutputs: readonly string[];
  /** Files that the list of touched files names, wherever the model reads it. */
  listedFiles: readonly string[];
  measuredCalls: readonly MeasuredCall[];
  factorOf: RawConversation['factorOf'];
  asksOnceMore: boolean;
}>;

/** The metrics of a replay. Shares are between 0 and 1; tokens are real ones, as billed. */
export type ContextMetrics = Readonly<{
  /** Answered steps. */
  calls: number;
  summaryCalls: number;
  rejectedByWindow: number;
  compactions: number;
  prunes: number;
  /** The most tokens of old tool outputs in a prompt that needed a prune. */
  prunable: number;
  compactionFailures: number;
  /** Median of the used share of `usable` when a compaction began. Null: there was none. */
  utilizationBeforeCompaction: number | null;
  /** Share of all prompt tokens that repeat the beginning of an earlier prompt of the session. */
  prefixHit: number;
  /** Steps whose prompt did not extend the previous one. */
  breaks: number;
  promptTokens: number;
  costUnits: Readonly<{ cached: number; uncached: number; raw: number }>;
  /** The largest prompt of the unchanged conversation. */
  rawPrompt: number;
  estimator: EstimatorErrors;
  firstAndLastUserVerbatim: boolean;
  editedFileRecall: number;
  needles: ReturnType<typeof keptNeedles>;
  errorResultsKept: number;
  /** Requests that the provider's checker refused: for calls without results or the reverse, and for any reason. */
  orphans: number;
  invalidViews: number;
  exhausted: number;
  usable: number;
  /** Tokens of the whole conversation; a window without compaction would have to hold them. */
  content: number;
  /** The largest message that the user or the model wrote. Unlike tool outputs, these are never cut to fit. */
  largestMessage: number;
}>;

export function contextMetrics(trace: ReplayTrace): ContextMetrics {
  const { recording, calls, factorOf } = trace;
  const steps = stepCalls(recording, calls);
  const lastStep = steps.at(-1);
  const lastView = lastStep === undefined ? '' : textOfRequest(lastStep.request);
  const raw = rawConversation({
    ...trace,
    firstPromptTokens: firstPrompt(trace),
    closingTokens: trace.asksOnceMore ? (lastStep?.usage?.output ?? 0) / factorOf(steps.length) : null,
  });
  return {
    ...counts(trace, steps.length),
    ...promptMetrics(calls),
    prunable: prunableTokens(steps, trace.usableTokens, factorOf),
    costUnits: { ...costUnits(calls), raw: raw.costUnits },
    rawPrompt: raw.largestPrompt,
    estimator: estimatorErrors(trace.measuredCalls),
    firstAndLastUserVerbatim: stepsWithoutUser(recording, steps).length === 0,
    editedFileRecall: rounded(fileRecall(editedFiles(recording), [lastView, ...trace.listedFiles].join('\n'))),
    needles: keptNeedles(trace.needles, {
      lastView,
      summaryInputs: calls.flatMap(({ summary, request }) =>
        summary && request !== undefined ? [textOfRequest(request)] : [],
      ),
      storedOutputs: trace.storedOutputs,
    }),
    errorResultsKept: rounded(errorResultsKept(recording, steps)),
    usable: trace.usableTokens,
    content: Math.round(contentTokens(recording) * factorOf(steps.length)),
    largestMessage: largestMessageTokens(recording, factorOf),
  };
}

function counts({ calls, events, usableTokens }: ReplayTrace, steps: number) {
  const countOf = (type: string): number => events.filter((event) => event.type === type).length;
  const used = events.flatMap(({ type, data }) =>
    type === 'compaction:start' ? [Number(data['tokensBefore']) / usableTokens] : [],
  );
  const median = quantile(used, 0.5);
  return {
    calls: steps,
    summaryCalls: calls.filter(({ summary }) => summary).length,
    rejectedByWindow: calls.filter(({ refusal }) => refusal === 'window').length,
    compactions: countOf('compaction:complete'),
    prunes: events.filter(({ type, data }) => type === 'prune:complete' && Number(data['prunedCount']) > 0).length,
    compactionFailures: countOf('compaction:failed'),
    utilizationBeforeCompaction: median === null ? null : rounded(median),
    orphans: calls.filter(({ violationClasses }) => violationClasses.includes('pairing')).length,
    invalidViews: calls.filter(({ violationClasses }) => violationClasses.length > 0).length,
    exhausted: events.filter(isExhausted).length,
  };
}

function isExhausted({ type, data }: ReplayTrace['events'][number]): boolean {
  if (type === 'run:incomplete') return data['reason'] === 'context_exhausted';
  const error = data['error'];
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return type === 'run:failed' && code === 'context_exhausted';
}

function promptMetrics(calls: readonly TracedCall[]) {
  const served = servedCalls(calls);
  const promptTokens = served.reduce((sum, call) => sum + call.promptTokens, 0);
  const cached = served.reduce((sum, call) => sum + call.cachedTokens, 0);
  return {
    prefixHit: promptTokens === 0 ? 1 : rounded(cached / promptTokens),
    breaks: served.filter(({ summary, extendsPrefix }) => !summary && !extendsPrefix).length,
    promptTokens,
  };
}

/** Counted tokens of the first request. */
function firstPrompt({ recording, calls, factorOf }: ReplayTrace): number {
  const [first] = stepCalls(recording, calls);
  return first === undefined ? 0 : first.promptTokens / factorOf(0);
}
