import type { DynamicToolUIPart, ToolUIPart, UIMessage } from 'ai';
import { formatCallId, formatId } from '../../domain/ids.ts';
import type { Part, ToolPart } from '../../domain/transcript/message.ts';
import { outputText } from '../../domain/transcript/output-text.ts';
import { type CallAnswer, isOutput, outcomeOf, type RequiredAction } from '../../domain/transcript/required-action.ts';
import type { RunOutcome } from '../../store/session/runs.ts';
import type { TranscriptMessage } from '../../store/transcript/messages.ts';
import type { WrittenMessage } from '../../store/transcript/written-messages.ts';
import { limitReached } from '../run-updates.ts';
import type { Approvals } from './approvals.ts';
import { toFilePart, toSourceParts, toUiOutput, toUserParts } from './user-parts.ts';

type UiPart = UIMessage['parts'][number];
type UiToolPart = Exclude<ToolUIPart | DynamicToolUIPart, DynamicToolUIPart>;

type TranscriptEntry = Pick<TranscriptMessage, 'id' | 'role' | 'runId' | 'parts'>;
type Waiting = Readonly<{ id: string; content: readonly unknown[] }>;

/** Data besides the transcript. */
export type Beside = Readonly<{
  waiting?: readonly Waiting[];
  /** Open questions about calls. */
  approvals?: Approvals;
  /** Required actions of the active run. Those of runs below it are shown as a step of their own. */
  asked?: readonly RequiredAction[];
  /** Answers to calls that have no outcome yet, by the ids of the calls. */
  given?: ReadonlyMap<string, CallAnswer>;
  /** Outcomes of runs: they tell a stopped or failed answer from a complete one. */
  outcomes?: ReadonlyMap<string, RunOutcome>;
  /** Messages that one step drained together, each as it was written. */
  written?: ReadonlyMap<string, readonly WrittenMessage[]>;
}>;

/**
 * The transcript as UI messages, as the streams of its runs would build them: one message of the assistant per run,
 * with the messages that joined it. Summaries are left out, queued messages come last. The newest run has an empty
 * message if it ended without an answer.
 */
export function toUiMessages(
  transcript: readonly TranscriptEntry[],
  {
    waiting = [],
    approvals = new Map(),
    asked = [],
    given = new Map(),
    outcomes = new Map(),
    written = new Map(),
  }: Beside = {},
): UIMessage[] {
  const messages: UIMessage[] = [];
  const answerOf = (runId: string | null) =>
    messages.find(({ id, role }) => runId !== null && role === 'assistant' && id === formatId('run', runId));
  for (const message of transcript) {
    if (message.parts.some(({ type }) => type === 'compaction')) continue;
    const answer = answerOf(message.runId);
    if (message.role === 'user') {
      const said = written.get(message.id) ?? [{ id: message.id, content: message.parts }];
      if (answer === undefined) messages.push(...said.map(toUserMessage));
      else answer.parts.push(...said.map(toSteering));
      continue;
    }
    const parts = message.parts.flatMap((part, index) => toUiPart(message.id, part, index, { approvals, given }));
    if (answer !== undefined) answer.parts.push(...parts);
    else messages.push(toAnswer(message, parts, outcomes));
  }
  const last = transcript.at(-1);
  if (last !== undefined && answerOf(last.runId) === undefined && hasEnded(last, outcomes)) {
    messages.push(toAnswer(last, [], outcomes));
  }
  const below = asked.filter(({ child }) => child !== undefined);
  if (below.length > 0) answerOf(last?.runId ?? null)?.parts.push(...toChildStep(below, approvals));
  // The stream of a run ends with its result.
  for (const [runId, { result }] of outcomes) {
    if (result !== undefined) answerOf(runId)?.parts.push({ type: 'data-output', id: 'output', data: result.value });
  }
  const queued = waiting.map((message, index) => ({
    ...toUserMessage(message as WrittenMessage),
    metadata: { queue: { position: index + 1 } },
  }));
  return [...messages, ...queued];
}

function toChildStep(asked: readonly RequiredAction[], approvals: Approvals): UiPart[] {
  const calls = asked.map(({ id: toolCallId, toolName, args: input }): UiToolPart => {
    const approvalId = approvals.get(toolCallId);
    const call = { type: `tool-${toolName}` as const, toolCallId, input };
    if (approvalId === undefined) return { ...call, state: 'input-available' };
    return { ...call, state: 'approval-requested', approval: { id: approvalId } };
  });
  return [{ type: 'step-start' }, ...calls];
}

const hasEnded = ({ runId }: TranscriptEntry, outcomes: ReadonlyMap<string, RunOutcome>): boolean =>
  ['failed', 'cancelled', 'incomplete'].includes(outcomes.get(runId ?? '')?.status ?? '');

function toAnswer(
  { id, runId }: TranscriptEntry,
  parts: UiPart[],
  outcomes: ReadonlyMap<string, RunOutcome>,
): UIMessage {
  const outcome = outcomes.get(runId ?? '');
  const error = outcome === undefined ? null : errorOf(outcome);
  const metadata =
    outcome === undefined ? {} : { metadata: { status: outcome.status, ...(error !== null && { error }) } };
  return { id: formatId('run', runId ?? id), role: 'assistant', parts, ...metadata };
}

/** The same error that the stream of the run showed. */
function errorOf({ status, reason, error }: RunOutcome): { code: string; message: string } | null {
  if (status !== 'failed' && status !== 'incomplete') return null;
  const { code, message } = error ?? limitReached(reason ?? status);
  return { code, message };
}

const toSteering = ({ id, content }: Readonly<{ id: string; content: readonly Part[] }>): UiPart => ({
  type: 'steering-message',
  id: formatId('message', id),
  parts: toUserParts(content),
});

function toUserMessage({ id, content }: Readonly<{ id: string; content: readonly Part[] }>): UIMessage {
  return { id: formatId('message', id), role: 'user', parts: toUserParts(content) };
}

type Calls = Readonly<{ approvals: Approvals; given: ReadonlyMap<string, CallAnswer> }>;

function toUiPart(messageId: string, part: Part, index: number, calls: Calls): UiPart[] {
  switch (part.type) {
    case 'text':
      return [{ type: 'text', text: part.text, state: 'done' }];
    case 'reasoning':
      return [{ type: 'reasoning', text: part.text, state: 'done' }];
    case 'step-start':
      return [{ type: 'step-start' }];
    case 'file':
      return [toFilePart(part)];
    case 'source':
      return toSourceParts(part);
    case 'tool':
      return [toToolPart(formatCallId(messageId, index), part, calls)];
    case 'compaction':
      return [];
  }
}

function toToolPart(toolCallId: string, part: ToolPart, { approvals, given }: Calls): UiToolPart {
  const { input } = part;
  const answer = given.get(toolCallId);
  const output = part.output ?? (answer !== undefined && isOutput(answer) ? outcomeOf(answer).output : undefined);
  const call = { type: `tool-${part.toolName}` as const, toolCallId, input };
  const executed = part.providerExecuted === true ? { providerExecuted: true } : {};
  if (output === undefined) {
    const id = approvals.get(toolCallId);
    // Told as the page's own decision: a page sends its decisions as soon as every call of the step has one.
    if (answer?.kind === 'approve') {
      return { ...call, state: 'approval-responded', approval: { id: toolCallId, approved: true } };
    }
    if (id === undefined) return { ...call, ...executed, state: 'input-available' };
    return { ...call, state: 'approval-requested', approval: { id } };
  }
  if (output.type === 'execution-denied') {
    return { ...call, state: 'output-denied', approval: { id: toolCallId, approved: false } };
  }
  if (output.type === 'error-text' || part.state === 'error') {
    return { ...call, ...executed, state: 'output-error', errorText: outputText(output) };
  }
  return { ...call, ...executed, state: 'output-available', output: toUiOutput(output) };
}
