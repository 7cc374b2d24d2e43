import type { Part } from '../domain/transcript/message.ts';
import { addContent } from './response-parts.ts';
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

type TextListener = (type: 'text' | 'reasoning', partIndex: number, text: string) => void;
type ToolInputListener = (call: StreamedCall | null, text: string) => void;

/** An answer as far as it has been streamed. */
type StreamedAnswer = {
  readonly parts: Part[];
  /** The places of texts by `type:id`. */
  readonly openText: Map<string, number>;
  readonly openInputs: Map<string, StreamedCall>;
  readonly onText: TextListener;
  readonly onToolInput: ToolInputListener;
  rawFinishReason: string | null;
};

/**
 * Watches the parts of an answer: passes text on, and keeps all parts for a response that breaks off.
 * @param onToolInput called with the pieces of a call's input, first with an empty one; null: the provider runs the
 * call
 */
export function createStreamProcessor(
  onText: TextListener,
  onToolInput: ToolInputListener = () => undefined,
): StreamProcessor {
  const answer: StreamedAnswer = {
    parts: [{ type: 'step-start' }],
    openText: new Map(),
    openInputs: new Map(),
    onText,
    onToolInput,
    rawFinishReason: null,
  };
  return {
    onPart: (part) => take(answer, part),
    partial: () => answer.parts.filter((part) => !(isText(part) && part.text === '')),
    rawFinishReason: () => answer.rawFinishReason,
  };
}

function take(answer: StreamedAnswer, part: AnswerPart): void {
  switch (part.type) {
    case 'text-start':
      beginText(answer, 'text', part.id);
      return;
    case 'text-delta':
      growText(answer, 'text', part);
      return;
    case 'reasoning-start':
      beginText(answer, 'reasoning', part.id);
      return;
    case 'reasoning-delta':
      growText(answer, 'reasoning', part);
      return;
    case 'tool-input-delta':
      answer.onToolInput(answer.openInputs.get(part.id) ?? null, part.delta);
      return;
    case 'tool-input-start':
      beginInput(answer, part);
      return;
    case 'tool-call':
      answer.openInputs.delete(part.toolCallId);
      addContent(answer.parts, part);
      return;
    case 'tool-result':
    case 'tool-error':
    case 'source':
    case 'file':
    case 'reasoning-file':
      addContent(answer.parts, part);
      return;
    case 'model-call-end':
      answer.rawFinishReason = part.rawFinishReason ?? null;
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
}

function beginText({ parts, openText }: StreamedAnswer, type: 'text' | 'reasoning', id: string): void {
  openText.set(`${type}:${id}`, parts.push({ type, text: '' }) - 1);
}

function growText(
  answer: StreamedAnswer,
  type: 'text' | 'reasoning',
  { id, text }: Readonly<{ id: string; text: string }>,
): void {
  if (!answer.openText.has(`${type}:${id}`)) beginText(answer, type, id);
  const index = answer.openText.get(`${type}:${id}`) ?? -1;
  const part = answer.parts[index];
  if (part?.type !== type || text === '') return;
  answer.parts[index] = { ...part, text: part.text + text };
  answer.onText(type, index, text);
}

/** Calls come whole in the order in which they began, so the index of one that is being streamed is known. */
function beginInput(answer: StreamedAnswer, { id, toolName, providerExecuted }: InputStart): void {
  if (providerExecuted === true) return;
  const call = { index: answer.parts.length + answer.openInputs.size, toolCallId: id, toolName };
  answer.openInputs.set(id, call);
  answer.onToolInput(call, '');
}

function isText(part: Part): part is Extract<Part, { type: 'text' | 'reasoning' }> {
  return part.type === 'text' || part.type === 'reasoning';
}
