import { formatCallId, formatId } from '../domain/ids.ts';
import type { StreamedCall } from '../model/stream-processor.ts';
import type { OpenStep } from './endings/partial-answer.ts';

export function previewThinking({ deps, scope, messageId }: OpenStep): void {
  deps.bus.preview(scope.sessionId, {
    type: 'llm:thinking',
    data: {
      runId: formatId('run', scope.runId),
      step: scope.stepNo,
      attempt: scope.attempt,
      messageId: formatId('message', messageId),
    },
  });
}

/** Sends streamed text to readers, unless the lease may have expired. */
export function createTextPreview({
  deps,
  scope,
  messageId,
}: OpenStep): (type: 'text' | 'reasoning', delta: string) => void {
  const publicId = formatId('message', messageId);
  let offset = 0;
  return (chunkType, content) => {
    const at = offset;
    offset += content.length;
    if (!scope.held.mayAct()) return;
    const data = { messageId: publicId, epoch: scope.fence.epoch, offset: at, chunkType, content };
    deps.bus.preview(scope.sessionId, { type: 'llm:chunk', data });
  };
}

/** Sends call inputs to readers. They are not stored: recovery must never find half a call. */
export function createInputPreview({ deps, scope, messageId }: OpenStep): (call: StreamedCall, delta: string) => void {
  const offsets = new Map<number, number>();
  return ({ index, toolCallId: callId, toolName }, content) => {
    const offset = offsets.get(index) ?? 0;
    offsets.set(index, offset + content.length);
    if (!scope.held.mayAct()) return;
    const id = formatCallId(messageId, index);
    const place = { messageId: formatId('message', messageId), epoch: scope.fence.epoch, id };
    deps.bus.preview(scope.sessionId, {
      type: 'llm:tool-input',
      data: { ...place, callId, toolName, offset, content },
    });
  };
}
