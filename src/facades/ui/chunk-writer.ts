import type { UIMessageChunk } from 'ai';
import type { ToolPart } from '../../domain/transcript/message.ts';
import { outputText } from '../../domain/transcript/output-text.ts';
import { type EndState, limitReached, type RunEnd, type RunUpdate } from '../run-updates.ts';
import { type Approvals, approvalsOf } from './approvals.ts';
import type { UiFrame } from './ui-frame.ts';
import { toFilePart, toSourceParts, toUiOutput, toUserParts } from './user-parts.ts';

export type ChunkWriterOptions = Readonly<{
  /** Public ids. */
  sessionId: string;
  runId: string;
  /** Calls whose approval the client was asked for in an earlier stream of the run. */
  approvals?: Approvals;
}>;

const COMPACTING_NOTICE = '⚙️ Compacting…';
const compactedNotice = (tokensBefore: number, tokensAfter: number): string =>
  `✅ Compacted: ${tokensBefore} → ${tokensAfter} tokens`;

/**
 * Turns a run's updates into chunks of the AI SDK's UI message stream, for its newest version. All steps of a run are
 * one message, which has the run's id. (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol)
 */
export function createChunkWriter({ runId, approvals }: ChunkWriterOptions): (update: RunUpdate) => UiFrame[] {
  const message: WrittenMessage = {
    runId,
    approvals: new Map(approvals),
    step: 0,
    open: null,
    texts: 0,
    inputs: new Map(),
  };
  return (update) => write(message, update);
}

/** The message of a run as far as it was written. */
type WrittenMessage = {
  readonly runId: string;
  readonly approvals: Map<string, string>;
  step: number;
  /** The text that is being written. */
  open: Readonly<{ type: 'text' | 'reasoning'; id: string }> | null;
  texts: number;
  /** Calls whose input is being written. */
  readonly inputs: Map<string, WrittenInput>;
};

/** `sentChars`: how much of the input was sent; null: a piece was lost, so no more is sent. */
type WrittenInput = Readonly<{ toolName: string; sentChars: number | null }>;

function write(message: WrittenMessage, update: RunUpdate): UiFrame[] {
  switch (update.kind) {
    case 'alive':
      return [{ comment: 'keep-alive' }];
    case 'queued':
      return [queueChunk(update.position)];
    case 'step-started':
      // The same step again: its first attempt was taken back, with all frames since its start.
      if (update.step === message.step) return [];
      message.step = update.step;
      return [...close(message), ...dropInputs(message), { type: 'start-step' }];
    case 'step-reset':
      message.open = null;
      message.inputs.clear();
      return [{ type: 'reset-step' }];
    case 'delta':
      return grow(message, update.type, update.text);
    case 'answer-ended':
      return close(message);
    case 'file': {
      const { mediaType, url } = toFilePart(update.file);
      return [...close(message), { type: 'file', mediaType, url }];
    }
    case 'source':
      return [...close(message), ...toSourceParts(update.source)];
    case 'tool-call':
      return [...close(message), ...callChunks(update, message.inputs.delete(update.id))];
    case 'tool-input':
      return growInput(message, update);
    case 'tool-result':
      return resultChunks(update.id, update.part);
    case 'asked':
      return askChunks(update, message.approvals);
    case 'answered':
      return answerChunks(update, message.approvals.get(update.id));
    case 'joined':
      return [{ type: 'steering-message', id: update.messageId, parts: toUserParts(update.parts) }];
    case 'step-completed':
      return [
        ...close(message),
        ...dropInputs(message),
        { type: 'finish-step' },
        ...(update.context === null ? [] : [metadataChunk({ context: update.context })]),
      ];
    case 'usage':
    case 'waiting':
      return [];
    case 'compacting':
    case 'compacted':
    case 'compaction-failed':
      return [compactionFrame(update)];
    case 'pruned':
      return [pruningFrame(update)];
    case 'ended':
      return [...close(message), ...dropInputs(message), ...endChunks(update.end, update.state)];
  }
}

function close(message: WrittenMessage): UiFrame[] {
  const ended = message.open;
  message.open = null;
  return ended === null ? [] : [{ type: `${ended.type}-end`, id: ended.id }];
}

function grow(message: WrittenMessage, type: 'text' | 'reasoning', delta: string): UiFrame[] {
  if (message.open?.type === type) return [{ type: `${type}-delta`, id: message.open.id, delta }];
  const id = `${message.runId}-${++message.texts}`;
  const before = close(message);
  message.open = { type, id };
  return [...before, { type: `${type}-start`, id }, { type: `${type}-delta`, id, delta }];
}

function growInput(
  message: WrittenMessage,
  { id, toolName, offset, text }: Extract<RunUpdate, { kind: 'tool-input' }>,
): UiFrame[] {
  const known = message.inputs.get(id);
  const begun: UiFrame[] =
    known === undefined ? [...close(message), { type: 'tool-input-start', toolCallId: id, toolName }] : [];
  const sentChars = known === undefined ? 0 : known.sentChars;
  const goesOn = sentChars === offset;
  message.inputs.set(id, { toolName, sentChars: goesOn ? offset + text.length : null });
  if (!goesOn || text === '') return begun;
  return [...begun, { type: 'tool-input-delta', toolCallId: id, inputTextDelta: text }];
}

/** Ends the calls that are still incomplete when their answer ends. */
function dropInputs({ inputs }: WrittenMessage): UiFrame[] {
  const dropped = [...inputs];
  inputs.clear();
  return dropped.map(([toolCallId, { toolName }]) => {
    return { type: 'tool-input-error', toolCallId, toolName, input: {}, errorText: 'The call was not finished.' };
  });
}

/** The beginning of a message, or of its part after an answer of the client. */
export function startChunk({ sessionId, runId }: ChunkWriterOptions): UiFrame {
  return { type: 'start', messageId: runId, messageMetadata: { sessionId, runId } };
}

const metadataChunk = (messageMetadata: object): UiFrame => ({ type: 'message-metadata', messageMetadata });

const queueChunk = (position: number): UiFrame => ({
  type: 'data-queue',
  id: 'queue',
  data: { position },
  transient: true,
});

/** @param hasBegun the client was sent its input while it was written */
function callChunks(
  { id: toolCallId, toolName, args: input }: Omit<Extract<RunUpdate, { kind: 'tool-call' }>, 'kind'>,
  hasBegun: boolean,
): UiFrame[] {
  const begun: UiFrame[] = hasBegun ? [] : [{ type: 'tool-input-start', toolCallId, toolName }];
  return [...begun, { type: 'tool-input-available', toolCallId, toolName, input }];
}

function resultChunks(toolCallId: string, part: ToolPart | null): UiFrame[] {
  const output = part?.output;
  if (part === null || output === undefined) return [];
  const provider = part.providerExecuted === true ? { providerExecuted: true } : {};
  if (output.type === 'execution-denied') return [{ type: 'tool-output-denied', toolCallId }];
  if (output.type === 'error-text' || part.state === 'error') {
    return [{ type: 'tool-output-error', toolCallId, errorText: outputText(output), ...provider }];
  }
  return [{ type: 'tool-output-available', toolCallId, output: toUiOutput(output), ...provider }];
}

/**
 * Asks for approvals only: the client learned of calls that it runs itself with the call. Calls of a run below are a step
 * of their own, in which the client has all that it is to answer.
 */
function askChunks(update: Extract<RunUpdate, { kind: 'asked' }>, known: Map<string, string>): UiFrame[] {
  const calls = update.calls.map((call) => ({ ...call, askedSeq: update.seq }));
  const asked = approvalsOf(calls);
  const begun: UiFrame[] =
    update.childRunId === null || calls.length === 0
      ? []
      : [{ type: 'start-step' }, ...calls.flatMap((call) => callChunks(call, false))];
  for (const [id, approvalId] of asked) known.set(id, approvalId);
  const requests = calls.flatMap(({ id: toolCallId, kind }): UiFrame[] => {
    const approvalId = asked.get(toolCallId);
    if (approvalId === undefined) return [];
    const reason =
      kind === 'unknown_outcome' ? { reason: 'It is not known whether the call took effect: run it again?' } : {};
    return [{ type: 'tool-approval-request', approvalId, toolCallId, ...reason }];
  });
  const questions = calls.flatMap(({ id, toolName, questions: items }): UiFrame[] =>
    items === undefined ? [] : [{ type: 'data-question', id, data: { toolCallId: id, toolName, questions: items } }],
  );
  return [...begun, ...requests, ...questions];
}

/** @param approvalId absent: the client was not asked */
function answerChunks({ answer }: Extract<RunUpdate, { kind: 'answered' }>, approvalId: string | undefined): UiFrame[] {
  if (answer === 'output' || approvalId === undefined) return [];
  const reason = answer === 'expired' ? { reason: 'No answer came in time.' } : {};
  return [{ type: 'tool-approval-response', approvalId, approved: answer === 'approve', ...reason }];
}

type CompactionUpdate = Extract<RunUpdate, { kind: 'compacting' | 'compacted' | 'compaction-failed' }>;

/** Transient: a page that does not know these parts neither shows nor keeps them. */
function compactionFrame(update: CompactionUpdate): UiFrame {
  const { kind, ...numbers } = update;
  const text =
    update.kind === 'compacting'
      ? COMPACTING_NOTICE
      : update.kind === 'compacted'
        ? compactedNotice(update.tokensBefore, update.tokensAfter)
        : '⚠️ The context could not be compacted';
  return { type: 'data-compaction', data: { phase: kind, text, ...numbers }, transient: true };
}

function pruningFrame({ prunedCount, savedTokens }: Extract<RunUpdate, { kind: 'pruned' }>): UiFrame {
  const outputs = prunedCount === 1 ? '1 old tool output' : `${prunedCount} old tool outputs`;
  const text = `🧹 Cleared ${outputs}: ${savedTokens} tokens`;
  return { type: 'data-pruning', data: { text, prunedCount, savedTokens }, transient: true };
}

function endChunks(end: RunEnd, state: EndState): UiFrame[] {
  const data = state.output?.value;
  return [
    ...(data === undefined ? [] : [{ type: 'data-output', id: 'output', data } as const]),
    ...lastChunks(end, state),
  ];
}

function lastChunks(end: RunEnd, { usage, context, waiting }: EndState): UiFrame[] {
  const status = end.status === 'parked' ? {} : { status: end.status };
  const messageMetadata = { ...status, usage, ...(context !== null && { context }), queue: { waiting } };
  switch (end.status) {
    case 'completed':
      return [{ type: 'finish', finishReason: toFinishReason(end.finishReason), messageMetadata }];
    case 'requires_action':
      return [{ type: 'finish', finishReason: 'tool-calls', messageMetadata }];
    case 'cancelled':
      return [metadataChunk(messageMetadata), { type: 'abort', reason: 'cancelled' }];
    case 'failed':
      return [metadataChunk(messageMetadata), errorChunk(end.error)];
    case 'incomplete':
      return [metadataChunk(messageMetadata), errorChunk(end.error ?? limitReached(end.reason))];
    case 'parked':
      return end.after === 'cancelled'
        ? [{ type: 'abort', reason: 'the message waits in the queue' }]
        : [errorChunk({ code: 'parked', message: 'The message waits in the queue: the run before it failed' })];
  }
}

/** The end of an incomplete message, with the reason. */
export const errorChunk = ({ code, message }: Readonly<{ code: string; message: string }>): UiFrame => ({
  type: 'error',
  errorText: `${message} (${code})`,
});

type UiFinishReason = NonNullable<Extract<UIMessageChunk, { type: 'finish' }>['finishReason']>;

function toFinishReason(reason: string): UiFinishReason {
  const known: readonly UiFinishReason[] = ['stop', 'length', 'content-filter', 'tool-calls', 'error', 'other'];
  return known.find((candidate) => candidate === reason) ?? 'other';
}
