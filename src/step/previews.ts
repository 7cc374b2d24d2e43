import { formatId } from '../domain/ids.ts';
import type { OpenStep } from './partial-answer.ts';

/** Tells readers that the model was asked. */
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

/** Passes streamed text on to readers; nothing once the lease may have run out. */
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
