import type { LanguageModel } from 'ai';
import { THOUGHTS } from '../../domain/model/model-reasoning.ts';
import type { ModelProtocol } from '../../domain/model/shown-media.ts';
import type { Json } from '../../domain/transcript/message.ts';
import { UNSIGNED } from './adapt-body.ts';
import { type Fields, isFields } from './read-json.ts';

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type Prompt = Parameters<Model['doStream']>[0]['prompt'];
type PromptMessage = Prompt[number];
type Assistant = Extract<PromptMessage, { role: 'assistant' }>;
type Thought = Extract<Assistant['content'][number], { type: 'reasoning' }>;
type Streamed = Awaited<ReturnType<Model['doStream']>>['stream'];
export type StreamPart = Streamed extends ReadableStream<infer Part> ? Part : never;

export const isChat = (protocol: ModelProtocol): boolean =>
  protocol === 'openai-chat' || protocol === 'openai-compatible';

/**
 * Notes with each thought without a signature where it stood, so that it goes back there: `reasoning_content`,
 * `reasoning` or `reasoning_details` of chat completions, or a thinking block.
 */
export function noteThoughts(protocol: ModelProtocol): TransformStream<StreamPart, StreamPart> {
  if (isChat(protocol)) return noteFields();
  return protocol === 'anthropic-messages' ? noteBlocks() : new TransformStream();
}

function noteFields(): TransformStream<StreamPart, StreamPart> {
  let field = 'reasoning_content';
  let details: Fields[] = [];
  const noted = (): { [THOUGHTS]: Record<string, Json> } => {
    const encoded = details.length === 0 ? {} : { details: JSON.stringify(details) };
    details = [];
    return { [THOUGHTS]: { field, ...encoded } };
  };
  return new TransformStream({
    transform(part, controller) {
      if (part.type === 'raw') {
        const delta = deltaOf(part.rawValue);
        if (typeof delta['reasoning_content'] === 'string') field = 'reasoning_content';
        else if (typeof delta['reasoning'] === 'string') field = 'reasoning';
        details = withDetails(details, delta['reasoning_details']);
        return;
      }
      if (part.type === 'reasoning-end') {
        controller.enqueue({ ...part, providerMetadata: { ...part.providerMetadata, ...noted() } });
        return;
      }
      // Details that came without a text, or after it.
      if (part.type === 'finish' && details.length > 0) {
        controller.enqueue({ type: 'reasoning-start', id: 'reasoning-details' });
        controller.enqueue({ type: 'reasoning-end', id: 'reasoning-details', providerMetadata: noted() });
      }
      controller.enqueue(part);
    },
  });
}

function deltaOf(chunk: unknown): Fields {
  const [choice] = isFields(chunk) && Array.isArray(chunk['choices']) ? chunk['choices'] : [];
  return isFields(choice) && isFields(choice['delta']) ? choice['delta'] : {};
}

/** Joins the pieces of one detail, which come with the same index and type. */
function withDetails(details: readonly Fields[], pieces: unknown): Fields[] {
  const joined = [...details];
  for (const piece of Array.isArray(pieces) ? pieces : []) {
    if (!isFields(piece)) continue;
    const last = joined.at(-1);
    const isSame = last !== undefined && last['type'] === piece['type'] && last['index'] === piece['index'];
    if (isSame) joined[joined.length - 1] = joinedDetail(last, piece);
    else joined.push(piece);
  }
  return joined;
}

function joinedDetail(first: Fields, next: Fields): Fields {
  const texts = ['text', 'summary', 'data'].flatMap((key): [string, string][] => {
    const [before, after] = [first[key], next[key]];
    return typeof before === 'string' && typeof after === 'string' ? [[key, before + after]] : [];
  });
  const present = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null && value !== undefined));
  return { ...first, ...present, ...Object.fromEntries(texts) };
}

/** A block that the server has signed has its signature, which is enough. */
function noteBlocks(): TransformStream<StreamPart, StreamPart> {
  const signatures = new Map<string, string>();
  return new TransformStream({
    transform(part, controller) {
      if (part.type === 'reasoning-start' && part.providerMetadata?.['anthropic']?.['redactedData'] !== undefined) {
        signatures.set(part.id, 'redacted');
      }
      if (part.type === 'reasoning-delta') {
        const signature = part.providerMetadata?.['anthropic']?.['signature'];
        if (typeof signature === 'string') signatures.set(part.id, signature);
      }
      const signature = part.type === 'reasoning-end' ? signatures.get(part.id) : undefined;
      if (part.type !== 'reasoning-end' || (signature !== undefined && signature !== '')) {
        controller.enqueue(part);
        return;
      }
      const note = { field: 'thinking', signature: signature === '' ? 'empty' : 'absent' };
      controller.enqueue({ ...part, providerMetadata: { [THOUGHTS]: note } });
    },
  });
}

/** Puts the thoughts of a prompt where their endpoint had them, in the form that the SDK takes. */
export function placeThoughts(prompt: Prompt, protocol: ModelProtocol): Prompt {
  if (isChat(protocol)) return prompt.map(withFields);
  return protocol === 'anthropic-messages' ? prompt.map(withBlocks) : prompt;
}

const isThought = (part: Assistant['content'][number]): part is Thought => part.type === 'reasoning';

function withFields(message: PromptMessage): PromptMessage {
  if (message.role !== 'assistant') return message;
  const thoughts = message.content.filter(isThought);
  if (thoughts.length === 0) return message;
  const fields = fieldsOf(thoughts);
  const { providerOptions } = message;
  return {
    ...message,
    content: message.content.filter((part) => !isThought(part)),
    providerOptions: { ...providerOptions, openaiCompatible: { ...providerOptions?.['openaiCompatible'], ...fields } },
  };
}

function fieldsOf(thoughts: readonly Thought[]): Record<string, Json> {
  const notes = thoughts.map(({ providerOptions }) => providerOptions?.[THOUGHTS] ?? {});
  const text = thoughts.map((thought) => thought.text).join('');
  const details = notes.flatMap(({ details: detail }): Json[] =>
    typeof detail === 'string' ? JSON.parse(detail) : [],
  );
  const field = notes.find((note) => typeof note['field'] === 'string')?.['field'];
  return {
    ...(text !== '' && { [String(field ?? 'reasoning_content')]: text }),
    ...(details.length > 0 && { reasoning_details: details }),
  };
}

function withBlocks(message: PromptMessage): PromptMessage {
  if (message.role !== 'assistant') return message;
  const content = message.content.map((part) => {
    const note = isThought(part) ? part.providerOptions?.[THOUGHTS] : undefined;
    if (note?.['field'] !== 'thinking') return part;
    const signature = note['signature'] === 'empty' ? UNSIGNED.empty : UNSIGNED.absent;
    return { ...part, providerOptions: { anthropic: { signature } } };
  });
  return { ...message, content };
}
