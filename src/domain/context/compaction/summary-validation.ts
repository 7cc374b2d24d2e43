import { isBlank } from '../../model/model-frames.ts';
import type { FinishReason } from '../../transcript/message.ts';
import { SUMMARY_SECTIONS } from './summary-marks.ts';

export type SummaryAnswer = Readonly<{
  text: string;
  finishReason: FinishReason;
  toolCalls: number;
  /** Real tokens of the text. */
  tokens: number;
}>;

export type SummaryFault =
  | 'empty'
  | 'cut_off'
  | 'refused'
  | 'tool_call'
  | 'sections_missing'
  | 'invalid_json'
  | 'too_long'
  | 'not_smaller';

const GOAL = '## Goal';

/** Fewer headings do not make a structured summary. */
const MIN_SECTIONS = 3;

export type SummaryBounds = Readonly<{
  replacedTokens: number;
  targetTokens: number;
}>;

/** A refused summary changes nothing: a cut, empty or inflated one costs the task more than a long history. */
export function validateSummary(answer: SummaryAnswer, bounds: SummaryBounds): SummaryFault | null {
  return faultOfForm(answer, bounds) ?? (hasSections(answer.text) ? null : 'sections_missing');
}

/** The first fault that does not depend on the requested format. */
export function faultOfForm(answer: SummaryAnswer, bounds: SummaryBounds): SummaryFault | null {
  const { text, finishReason, toolCalls, tokens } = answer;
  if (toolCalls > 0) return 'tool_call';
  if (finishReason === 'length') return 'cut_off';
  if (finishReason === 'content-filter') return 'refused';
  if (isBlank(text)) return 'empty';
  if (tokens >= bounds.replacedTokens) return 'not_smaller';
  return tokens > bounds.targetTokens ? 'too_long' : null;
}

/** Whether the text has the goal and at least two more headings, each on a line of its own. */
function hasSections(text: string): boolean {
  const lines = new Set(text.split('\n').map((line) => line.trim().toLowerCase()));
  const found = SUMMARY_SECTIONS.filter((section) => lines.has(section.toLowerCase()));
  return found.length >= MIN_SECTIONS && found.includes(GOAL);
}

/** Whether the model may mend the fault if the next request names it. */
export function isWorthReminding(fault: SummaryFault): boolean {
  return fault !== 'refused' && fault !== 'not_smaller';
}

export const FAULT_MESSAGES: Readonly<Record<SummaryFault, string>> = {
  empty: 'the summary was empty',
  cut_off: 'the summary was cut off',
  refused: 'the provider stopped the summary for its content',
  tool_call: 'the summarizer called a tool',
  sections_missing: `the summary needs the heading ${GOAL} and at least two of the other headings that were asked for`,
  invalid_json: 'the pruned conversation was not the JSON that was asked for',
  too_long: 'the summary was longer than was asked for',
  not_smaller: 'the summary was not smaller than what it stands for',
};
