import type { Part } from '../domain/transcript/message.ts';
import {
  generatedImage,
  isImageGeneration,
  settleProviderCall,
  toErrorOutput,
  toFilePart,
  toSourcePart,
  toToolOutput,
  toToolPart,
} from './response-parts.ts';
import type { AnswerPart } from './stream-answer.ts';

export type StreamProcessor = Readonly<{
  onPart: (part: AnswerPart) => void;
  /** The parts so far, for a response that breaks off. Calls without their whole input are not among them. */
  partial: () => readonly Part[];
  /** The provider's own finish reason; null: not told yet. */
  rawFinishReason: () => string | null;
}>;

type InputStart = Extract<AnswerPart, { type: 'tool-input-start' }>;

/** A call whose input is being streamed. `index`: its later place among the parts. */
export type StreamedCall = Readonly<{ index: number; toolCallId: string; toolName: string }>;

/**
 * Watches the parts of an answer: passes text on, and keeps all parts for a response that breaks off.
 * @param onToolInput called with the pieces of a call's input, first with an empty one; null: the provider runs the
 * call
 */
export function createStreamProcessor(
  onText: (type: 'text' | 'reasoning', partIndex: number, text: string) => void,
  onToolInput: (call: StreamedCall | null, text: string) => void = () => undefined,
): StreamProcessor {
  const parts: Part[] = [{ type: 'step-start' }];
  const openText = new Map<string, number>();
  const openInputs = new Map<string, StreamedCall>();
  let rawFinishReason: string | null = null;

  const begin = (type: 'text' | 'reasoning', id: string): void => {
    openText.set(`${type}:${id}`, parts.push({ type, text: '' }) - 1);
  };
  const grow = (type: 'text' | 'reasoning', id: string, text: string): void => {
    if (!openText.has(`${type}:${id}`)) begin(type, id);
    const index = openText.get(`${type}:${id}`) ?? -1;
    const part = parts[index];
    if (part?.type !== type || text === '') return;
    parts[index] = { ...part, text: part.text + text };
    onText(type, index, text);
  };
  // Calls come whole in the order in which they began, so the index of one that is being streamed is known.
  const beginInput = ({ id, toolName, providerExecuted }: InputStart): void => {
    if (providerExecuted === true) return;
    const call = { index: parts.length + openInputs.size, toolCallId: id, toolName };
    openInputs.set(id, call);
    onToolInput(call, '');
  };
  const onPart = (part: AnswerPart): void => {
    switch (part.type) {
      case 'text-start':
        begin('text', part.id);
        return;
      case 'text-delta':
        grow('text', part.id, part.text);
        return;
      case 'reasoning-start':
        begin('reasoning', part.id);
        return;
      case 'reasoning-delta':
        grow('reasoning', part.id, part.text);
        return;
      case 'tool-input-delta':
        onToolInput(openInputs.get(part.id) ?? null, part.delta);
        return;
      case 'tool-input-start':
        beginInput(part);
        return;
      case 'tool-call':
        openInputs.delete(part.toolCallId);
        if (!isImageGeneration(part)) parts.push(toToolPart(part));
        return;
      case 'tool-result':
        // The tool first sends previews of the picture.
        if (isImageGeneration(part)) return void parts.push(...(part.preliminary ? [] : generatedImage(part.output)));
        settleProviderCall(parts, part.toolCallId, {
          state: 'completed',
          output: toToolOutput(part.output),
          providerMetadata: part.providerMetadata,
        });
        return;
      case 'tool-error':
        settleProviderCall(parts, part.toolCallId, {
          state: 'error',
          output: toErrorOutput(part.error),
          providerMetadata: part.providerMetadata,
        });
        return;
      case 'source':
        parts.push(toSourcePart(part));
        return;
      case 'file':
      case 'reasoning-file':
        parts.push(toFilePart(part));
        return;
      case 'model-call-end':
        rawFinishReason = part.rawFinishReason ?? null;
        return;
      case 'error':
      case 'model-call-start':
      case 'model-call-response-metadata':
      case 'text-end':
      case 'reasoning-end':
      case 'tool-input-end':
      case 'raw':
      case 'ping':
      case 'custom':
      case 'tool-approval-request':
      case 'tool-approval-response':
        // These have no content. Usage, finish reason and metadata come with the end of the answer.
        return;
      default:
        part satisfies never;
    }
  };
  return {
    onPart,
    partial: () => parts.filter((part) => !(isText(part) && part.text === '')),
    rawFinishReason: () => rawFinishReason,
  };
}

function isText(part: Part): part is Extract<Part, { type: 'text' | 'reasoning' }> {
  return part.type === 'text' || part.type === 'reasoning';
}
