import type { Thresholds } from '../../domain/context/limits/thresholds.ts';
import type { TokenCounter } from '../../domain/context/meter/tokens.ts';
import {
  afterResult,
  capText,
  countAnyLength,
  fitFiles,
  type OutputCap,
  outputCapOf,
  type ToolBatch,
} from '../../domain/context/prune/output-cap.ts';
import type { Part, ToolOutput } from '../../domain/transcript/message.ts';
import { outputText, textBeside, withText } from '../../domain/transcript/output-text.ts';
import { outputRef } from '../../domain/transcript/refs.ts';
import { isSettledCall } from '../../domain/transcript/tool-call.ts';
import { MAX_TOOL_OUTPUT_CHARS } from '../../domain/tunables.ts';
import { textBlob } from '../../store/transcript/blobs.ts';
import { readMessageSeq } from '../../store/transcript/earlier-content.ts';
import type { MessageKey } from '../../store/transcript/message-key.ts';
import type { CallMove } from '../../store/work/step-writes.ts';
import type { Tool } from '../../tools/tool.ts';
import type { StepDeps } from '../deps.ts';

export type OutputLimits = Readonly<{
  thresholds: Pick<Thresholds, 'toolOutputTokens' | 'toolBatchTokens'>;
  /** Counts tokens on the scale of the thresholds. */
  count: TokenCounter;
}>;

/** Fits the results of one message into the view, in the order of their arrival. */
export type OutputLimiter = Readonly<{
  /** Sets the parts of the message: the finished calls, and the number of open ones. */
  expect: (parts: readonly Part[]) => void;
  /** Whether a result of this text would be shown whole. It stays so while other calls get theirs. */
  isShownWhole: (text: string, tool: Tool | undefined) => boolean;
  /** The output that the view shows, and the blob of a cut one. @throws database errors */
  limit: (index: number, output: ToolOutput, tool: Tool | undefined) => Promise<LimitedOutput>;
}>;

type LimitedOutput = Pick<CallMove, 'cut'> & Readonly<{ output: ToolOutput }>;

/**
 * Cuts the tool outputs of one message to fit the view. The model can read the rest in pages.
 * @param messageId UUID of the message with the calls
 */
export function createOutputLimiter(
  deps: Pick<StepDeps, 'db' | 'newId'>,
  key: MessageKey,
  limits: OutputLimits,
): OutputLimiter {
  const { thresholds, count } = limits;
  let batch: ToolBatch = { openCalls: 1, usedTokens: 0 };
  const capFor = (tool: Tool | undefined): OutputCap =>
    outputCapOf(thresholds, batch, Math.min(tool?.maxOutputChars ?? MAX_TOOL_OUTPUT_CHARS, MAX_TOOL_OUTPUT_CHARS));
  const isShownWhole = (text: string, tool: Tool | undefined): boolean => {
    const cap = capFor(tool);
    return text.length <= cap.chars && count(text) <= cap.tokens;
  };
  const hintOf = async (index: number, tool: Tool | undefined): Promise<string> => {
    if (tool?.paged === true) return ': ask for less at once';
    return `: read them with read_tool_output, id ${outputRef(await readMessageSeq(deps.db, key), index)}`;
  };
  return {
    expect(parts) {
      batch = batchOf(parts, count);
    },
    isShownWhole,
    async limit(index, whole, tool) {
      const text = textBeside(whole);
      const hint = isShownWhole(text, tool) ? '' : await hintOf(index, tool);
      // No `await` from here on, so that the next result sees the budget that this one leaves.
      const cap = capFor(tool);
      const capped = capText(text, cap, count, hint);
      const { output, tokens } = fitFiles(whole, cap, count);
      batch = afterResult(batch, capped.tokens + tokens);
      if (!capped.truncated) return { output };
      const originalTokens = countAnyLength(text, count);
      const cut = tool?.paged === true ? { originalTokens } : { originalTokens, blob: textBlob(deps.newId(), text) };
      return { output: withText(output, capped.text), cut };
    },
  };
}

const NO_CAP: OutputCap = { tokens: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY };

function batchOf(parts: readonly Part[], count: TokenCounter): ToolBatch {
  const calls = parts.filter((part) => part.type === 'tool').filter((part) => part.providerExecuted !== true);
  const settled = calls.filter((call) => isSettledCall(call.state));
  const limited = settled.map(({ output }) =>
    output === undefined ? 0 : count(outputText(output)) + fitFiles(output, NO_CAP, count).tokens,
  );
  return { openCalls: calls.length - settled.length, usedTokens: limited.reduce((sum, tokens) => sum + tokens, 0) };
}
