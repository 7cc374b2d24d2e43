import type { UIMessage, UIMessageChunk } from 'ai';
import type { UiFrame } from './ui-frame.ts';

/** Major version of the AI SDK with which a page was built. */
export type SdkVersion = 5 | 6 | 7;

/** For a page that does not name its version: versions 6 and 7 read the same. */
export const UNNAMED_SDK: SdkVersion = 6;

/**
 * The version from which on the AI SDK reads a chunk; version 5 reads all others. A page throws at a chunk of an unknown
 * type, and loses the answer.
 */
const READ_SINCE: ReadonlyMap<UIMessageChunk['type'], SdkVersion> = new Map([
  ['tool-approval-request', 6],
  ['tool-output-denied', 6],
  ['tool-approval-response', 7],
  ['steering-message', 7],
  ['reset-step', 7],
]);

const DENIED = 'The call was denied.';
const ASKS = 'This call waits for a person to approve it.';
const RESET = 'The step is tried again: what it showed before this part is void.';
const UNFINISHED = 'The call was not finished.';

/** Passes on the frames that this version of the AI SDK reads, and something else that it reads in place of the others. */
export function createSdkFilter(sdk: SdkVersion): (frame: UiFrame) => UiFrame[] {
  const open = createOpenParts();
  return (frame) => {
    if ('comment' in frame) return [frame];
    const instead = (READ_SINCE.get(frame.type) ?? 0) > sdk ? insteadOf(frame, open.ends) : [frame];
    for (const sent of instead) open.note(sent);
    return instead;
  };
}

function insteadOf(chunk: UIMessageChunk, endsOfOpenParts: () => UIMessageChunk[]): UIMessageChunk[] {
  switch (chunk.type) {
    case 'tool-approval-request':
      return [approvalPart(chunk)];
    case 'tool-output-denied':
      return [{ type: 'tool-output-error', toolCallId: chunk.toolCallId, errorText: DENIED }];
    case 'steering-message':
      return [steeringPart(chunk)];
    case 'reset-step':
      return [...endsOfOpenParts(), { type: 'data-reset-step', data: { text: RESET } }];
    default:
      // A decision that the page has taken itself. One that came from elsewhere shows by the output of the call.
      return [];
  }
}

/** Follows which parts of the message have begun and not ended. */
function createOpenParts() {
  const texts = new Map<string, 'text' | 'reasoning'>();
  const inputs = new Map<string, string>();
  return {
    note(chunk: UiFrame): void {
      if ('comment' in chunk) return;
      if (chunk.type === 'text-start') texts.set(chunk.id, 'text');
      if (chunk.type === 'reasoning-start') texts.set(chunk.id, 'reasoning');
      if (chunk.type === 'text-end' || chunk.type === 'reasoning-end') texts.delete(chunk.id);
      if (chunk.type === 'tool-input-start') inputs.set(chunk.toolCallId, chunk.toolName);
      if (chunk.type === 'tool-input-available' || chunk.type === 'tool-input-error') inputs.delete(chunk.toolCallId);
    },
    ends(): UIMessageChunk[] {
      const ends = [...texts].map(([id, type]): UIMessageChunk => ({ type: `${type}-end`, id }));
      const errors = [...inputs].map(
        ([toolCallId, toolName]): UIMessageChunk => ({
          ...{ type: 'tool-input-error', toolCallId, toolName },
          ...{ input: {}, errorText: UNFINISHED },
        }),
      );
      return [...ends, ...errors];
    },
  };
}

type UiPart = UIMessage['parts'][number];

/** The messages with parts that this version of the AI SDK knows. */
export function toSdkMessages(messages: readonly UIMessage[], sdk: SdkVersion): readonly UIMessage[] {
  if (sdk === 7) return messages;
  return messages.map((message) => ({ ...message, parts: message.parts.flatMap((part) => toSdkParts(part, sdk)) }));
}

function toSdkParts(part: UiPart, sdk: SdkVersion): UiPart[] {
  if (part.type === 'steering-message') return [steeringPart(part)];
  if (sdk > 5 || !('toolCallId' in part)) return [part];
  const { toolCallId } = part;
  switch (part.state) {
    case 'approval-requested': {
      const { approval, ...call } = part;
      return [{ ...call, state: 'input-available' }, approvalPart({ approvalId: approval.id, toolCallId })];
    }
    case 'approval-responded': {
      const { approval: _, ...call } = part;
      return [{ ...call, state: 'input-available' }];
    }
    case 'output-denied': {
      const { approval: _, ...call } = part;
      return [{ ...call, state: 'output-error', errorText: DENIED }];
    }
    default:
      return [part];
  }
}

type Question = Readonly<{ approvalId: string; toolCallId: string; reason?: string }>;

/** A question about a call, for pages without approvals of their own. */
const approvalPart = ({ approvalId, toolCallId, reason = ASKS }: Question) => ({
  type: 'data-approval' as const,
  id: approvalId,
  data: { approvalId, toolCallId, text: reason },
});

const steeringPart = ({ id, parts }: Readonly<{ id: string; parts: readonly unknown[] }>) => ({
  type: 'data-steering-message' as const,
  id,
  data: { parts },
});
