import type { CompactPlan } from '../domain/context/compaction/compaction-plan.ts';
import { serializeWithin } from '../domain/context/compaction/summary-input.ts';
import {
  type SummaryOrder,
  summaryOrderText,
  summaryRequestText,
} from '../domain/context/compaction/summary-request.ts';
import type { SummaryFault } from '../domain/context/compaction/summary-validation.ts';
import type { ContextMeter } from '../domain/context/meter/context-meter.ts';
import { type ErrorRecord, toErrorRecord } from '../domain/errors.ts';
import { type Asked, askUntilValid } from './ask-until-valid.ts';
import {
  dataRequest,
  prefixRequest,
  replacedTokens,
  type Summarizer,
  summarizerOf,
  summaryTokensOf,
  transcriptRoom,
} from './requests.ts';
import { type Draft, noDraft, type Strategy } from './strategy.ts';
import { type CompactionWork, countReal } from './work.ts';

/** Upper limit of the pieces of a long head: more requests are not worth their cost. */
const MAX_PIECES = 4;
const MIN_PIECE_TOKENS = 300;

/** Summarizes the plan's head: first with the session's cached prefix, if that fits, then as data. */
export async function summarizeHead(
  work: CompactionWork,
  plan: CompactPlan,
  validate: Strategy['validate'],
): Promise<Draft> {
  const outcome = await askWithPrefix(work, plan, validate);
  if (outcome?.kind === 'valid') return { ok: true, body: outcome.text, model: work.meter.model };
  if (outcome?.kind === 'over') return noDraft(outcome);
  return summarizeAsData(work, plan, validate);
}

function orderOf(
  work: CompactionWork,
  plan: CompactPlan,
  meter: ContextMeter,
  reminder: SummaryFault | null,
): SummaryOrder {
  const { instructions } = work.meter.policy.compaction.options;
  return { round: work.round, targetTokens: summaryTokensOf(meter, plan), instructions, reminder };
}

async function askWithPrefix(
  work: CompactionWork,
  plan: CompactPlan,
  validate: Strategy['validate'],
): Promise<Asked | null> {
  const requestOf = (reminder: SummaryFault | null) =>
    prefixRequest(work, plan, summaryOrderText(orderOf(work, plan, work.meter, reminder)), plan.bodyTokens);
  const replaced = replacedTokens(work, plan);
  return askUntilValid(work, requestOf, (answer) => validate(answer, plan, replaced));
}

/** Summarizes the head as data, in pieces that fit the summarizer. Each piece is merged with the summary so far. */
export async function summarizeAsData(
  work: CompactionWork,
  planned: CompactPlan,
  validate: Strategy['validate'],
): Promise<Draft> {
  let summarizer: Summarizer;
  try {
    summarizer = await summarizerOf(work);
  } catch (error) {
    return { ok: false, error: toErrorRecord(error) };
  }
  const plan = { ...planned, bodyTokens: summaryTokensOf(summarizer.meter, planned) };
  const pieces = piecesOf(work, plan, summarizer);
  const first = await inPieces(work, plan, { summarizer, validate, pieces });
  // The window is smaller than its known limit.
  const outcome =
    first.kind === 'too_large'
      ? await inPieces(work, plan, { summarizer, validate, pieces: smallerPiecesOf(work, plan, summarizer, pieces) })
      : first;
  if (outcome.kind === 'valid') return { ok: true, body: outcome.text, model: summarizer.meter.model };
  return noDraft(outcome);
}

async function inPieces(
  work: CompactionWork,
  plan: CompactPlan,
  {
    summarizer,
    validate,
    pieces,
  }: Readonly<{ summarizer: Summarizer; validate: Strategy['validate']; pieces: readonly string[] }>,
): Promise<Asked> {
  const replaced = replacedTokens(work, plan);
  let summary = plan.previousSummary?.body ?? null;
  let outcome: Asked = { kind: 'over', error: NO_ROOM };
  for (const piece of pieces) {
    const merged = summary;
    const requestOf = (reminder: SummaryFault | null) =>
      dataRequest(
        work,
        summarizer,
        summaryRequestText(orderOf(work, plan, summarizer.meter, reminder), merged, piece),
        plan.bodyTokens,
      );
    outcome = (await askUntilValid(work, requestOf, (answer) => validate(answer, plan, replaced))) ?? outcome;
    if (outcome.kind !== 'valid') return outcome;
    summary = outcome.text;
  }
  return outcome;
}

const NO_ROOM: ErrorRecord = {
  code: 'input_overflow',
  message: 'The window of the summarizer is too small for what is to be summarized.',
};

function piecesOf(work: CompactionWork, plan: CompactPlan, summarizer: Summarizer): string[] {
  const beside = summaryRequestText(orderOf(work, plan, summarizer.meter, 'sections_missing'), '', '');
  const previousTokens = countReal(work, summarizer.meter)(plan.previousSummary?.body ?? '');
  // From the second piece on, the request contains the summary of the earlier pieces, which may be as long as its
  // limit.
  const mergedTokens = Math.max(previousTokens, plan.bodyTokens);
  const room = transcriptRoom(work, summarizer, beside, plan.bodyTokens) - mergedTokens;
  return cutHead(work, plan, summarizer, room);
}

/** Pieces of half the largest refused size, so that a refused request is not sent again. */
function smallerPiecesOf(
  work: CompactionWork,
  plan: CompactPlan,
  summarizer: Summarizer,
  refused: readonly string[],
): string[] {
  const count = countReal(work, summarizer.meter);
  return cutHead(work, plan, summarizer, Math.floor(Math.max(...refused.map(count)) / 2));
}

function cutHead(work: CompactionWork, plan: CompactPlan, { meter }: Summarizer, pieceTokens: number): string[] {
  if (pieceTokens < MIN_PIECE_TOKENS) return [];
  return serializeWithin(plan.head, { pieceTokens, pieces: MAX_PIECES }, countReal(work, meter));
}
