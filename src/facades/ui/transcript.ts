import type { DynamicToolUIPart, ToolUIPart, UIMessage } from 'ai';
import { outputText } from '../../domain/context/output-cap.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import type { Part, ToolPart, UserPart } from '../../domain/message.ts';
import type { RunStatus } from '../../domain/run.ts';
import type { TranscriptMessage } from '../../store/messages.ts';
import type { Approvals } from './approvals.ts';
import { toFilePart, toSourceParts, toUiOutput, toUserParts } from './user-parts.ts';

type UiPart = UIMessage['parts'][number];
type UiToolPart = Exclude<ToolUIPart | DynamicToolUIPart, DynamicToolUIPart>;

type Shown = Pick<TranscriptMessage, 'id' | 'role' | 'runId' | 'parts'>;
type Waiting = Readonly<{ id: string; content: readonly unknown[] }>;

/**
 * The transcript as messages of the AI SDK's UI, as the streams of its runs would have built them: one message of the
 * assistant per run, in it what joined the run later. Summaries are not shown. What waits comes last.
 * @param approvals what somebody is asked about calls
 * @param statuses of runs: an answer that was stopped is told from one that is complete
 */
export function toUiMessages(
  transcript: readonly Shown[],
  waiting: readonly Waiting[],
  approvals: Approvals,
  statuses: ReadonlyMap<string, RunStatus> = new Map(),
): UIMessage[] {
  const messages: UIMessage[] = [];
  for (const message of transcript) {
    if (message.parts.some(({ type }) => type === 'compaction')) continue;
    const answer = messages.find(({ id }) => message.runId !== null && id === formatId('run', message.runId));
    if (message.role === 'user') {
      if (answer === undefined) messages.push(toUserMessage(message.id, message.parts));
      else
        answer.parts.push({
          type: 'steering-message',
          id: formatId('message', message.id),
          parts: toUserParts(message.parts),
        });
      continue;
    }
    const parts = message.parts.flatMap((part, index) => toUiPart(message.id, part, index, approvals));
    if (answer !== undefined) answer.parts.push(...parts);
    else messages.push(toAnswer(message, parts, statuses));
  }
  const queued = waiting.map(({ id, content }, index) => ({
    ...toUserMessage(id, content as readonly UserPart[]),
    metadata: { queue: { position: index + 1 } },
  }));
  return [...messages, ...queued];
}

function toAnswer({ id, runId }: Shown, parts: UiPart[], statuses: ReadonlyMap<string, RunStatus>): UIMessage {
  const status = runId === null ? undefined : statuses.get(runId);
  const metadata = status === undefined ? {} : { metadata: { status } };
  return { id: formatId('run', runId ?? id), role: 'assistant', parts, ...metadata };
}

function toUserMessage(id: string, parts: readonly Part[]): UIMessage {
  return { id: formatId('message', id), role: 'user', parts: toUserParts(parts) };
}

function toUiPart(messageId: string, part: Part, index: number, approvals: Approvals): UiPart[] {
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
      return [toToolPart(formatCallId(messageId, index), part, approvals)];
    case 'compaction':
      return [];
  }
}

function toToolPart(toolCallId: string, part: ToolPart, approvals: Approvals): UiToolPart {
  const { output, input } = part;
  const call = { type: `tool-${part.toolName}` as const, toolCallId, input };
  const executed = part.providerExecuted === true ? { providerExecuted: true } : {};
  if (output === undefined) {
    const id = approvals.get(toolCallId);
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
