import type { TextStreamPart, ToolSet } from 'ai';
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

/** The end of a stream. The response itself comes with the end of the model call. */
export type StreamEnd = Readonly<
  | { kind: 'ended' }
  | { kind: 'aborted' }
  | { kind: 'failed'; error: unknown }
  /** Baton stopped it, because the window filled up while the model answered. */
  | { kind: 'stopped' }
>;

export type StreamProcessor = Readonly<{
  /** Reads the stream to its end. Never throws. */
  read: (stream: AsyncIterable<TextStreamPart<ToolSet>>) => Promise<StreamEnd>;
  /** The parts so far, for a response that breaks off. Calls without their whole input are not among them. */
  partial: () => readonly Part[];
  /** The provider's own finish reason; null: not told yet. */
  rawFinishReason: () => string | null;
}>;

type InputStart = Extract<TextStreamPart<ToolSet>, { type: 'tool-input-start' }>;

/** A call whose input is being streamed. `index`: its later place among the parts. */
export type StreamedCall = Readonly<{ index: number; toolCallId: string; toolName: string }>;

/**
 * Watches a model's stream: passes text on, and keeps all parts for a response that breaks off. Results of Baton's own
 * tools are not taken from it: the SDK loses those that arrive after an abort, so the tool runner commits them.
 * @param onSign called for every part that came from the model
 * @param onToolInput called with the pieces of a call's input, first with an empty one; null: the provider runs the
 * call
 */
export function createStreamProcessor(
  onText: (type: 'text' | 'reasoning', partIndex: number, text: string) => void,
  onSign: () => void = () => undefined,
  onToolInput: (call: StreamedCall | null, text: string) => void = () => undefined,
): StreamProcessor {
  const parts: Part[] = [{ type: 'step-start' }];
  const openText = new Map<string, number>();
  const openInputs = new Map<string, StreamedCall>();
  let failure: { error: unknown } | null = null;
  let aborted = false;
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
  const observe = (part: TextStreamPart<ToolSet>): void => {
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
        settleProviderCall(parts, part.toolCallId, 'completed', toToolOutput(part.output), part.providerMetadata);
        return;
      case 'tool-error':
        settleProviderCall(parts, part.toolCallId, 'error', toErrorOutput(part.error), part.providerMetadata);
        return;
      case 'source':
        parts.push(toSourcePart(part));
        return;
      case 'file':
      case 'reasoning-file':
        parts.push(toFilePart(part));
        return;
      case 'abort':
        aborted = true;
        return;
      case 'finish-step':
        rawFinishReason = part.rawFinishReason ?? null;
        return;
      case 'error':
        failure ??= { error: part.error };
        return;
      case 'start':
      case 'start-step':
      case 'text-end':
      case 'reasoning-end':
      case 'tool-input-end':
      case 'finish':
      case 'raw':
      case 'ping':
      case 'custom':
      case 'steering-message':
      case 'tool-approval-request':
      case 'tool-approval-response':
      case 'tool-output-denied':
        // These have no content. Usage, finish reason and metadata come with the end of the model call.
        return;
      default:
        part satisfies never;
    }
  };
  return {
    async read(stream) {
      try {
        for await (const part of stream) {
          if (comesFromModel(part)) onSign();
          observe(part);
        }
      } catch (error) {
        failure ??= { error };
      }
      if (aborted) return { kind: 'aborted' };
      return failure === null ? { kind: 'ended' } : { kind: 'failed', error: failure.error };
    },
    partial: () => parts.filter((part) => !(isText(part) && part.text === '')),
    rawFinishReason: () => rawFinishReason,
  };
}

/** False for the SDK's own marks of a start and of a failed end. */
export function comesFromModel({ type }: TextStreamPart<ToolSet>): boolean {
  return type !== 'start' && type !== 'start-step' && type !== 'error' && type !== 'abort';
}

function isText(part: Part): part is Extract<Part, { type: 'text' | 'reasoning' }> {
  return part.type === 'text' || part.type === 'reasoning';
}
