import type { Json, OutputItem, ToolPart } from '../transcript/message.ts';
import { UNKNOWN_OUTCOME } from '../transcript/required-action.ts';
import { fileForModel, type MediaContents } from './model-files.ts';
import { isBlank, NO_OUTPUT, UNNAMED_TOOL } from './model-frames.ts';
import type { ModelToolOutput } from './model-message.ts';
import type { ModelProtocol } from './shown-media.ts';

/** OpenAI allows 64 characters for call ids and names; Anthropic allows only this alphabet. */
const MAX_WIRE_CHARS = 64;
const toWireAlphabet = (text: string): string => text.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, MAX_WIRE_CHARS);

/**
 * How a protocol has the ids of calls. `recorded`: as their provider made them, because models are trained on their own
 * form, and some gateways keep data in them. `plain`: in Anthropic's alphabet, and each only once.
 */
export type CallIdForm = 'recorded' | 'plain';

export const callIdFormOf = (protocol: ModelProtocol): CallIdForm =>
  protocol === 'openai-chat' || protocol === 'openai-compatible' ? 'recorded' : 'plain';

/** Gives a call its id for the providers: the recorded one, unless that is taken or not allowed. */
export type CallIds = (recordedId: string, messageSeq: number, partIndex: number) => string;

/**
 * Providers reuse ids, some within one batch: a taken id gets message seq and part index appended, so that it depends
 * on no later call. Ids have to be asked for in the order of the view.
 */
export function createCallIds(form: CallIdForm = 'plain'): CallIds {
  const usedIds = new Set<string>();
  let newestSeq: number | null = null;
  return (recordedId, messageSeq, partIndex) => {
    if (form === 'recorded' && messageSeq !== newestSeq) usedIds.clear();
    newestSeq = messageSeq;
    if (form === 'recorded' && recordedId !== '' && !usedIds.has(recordedId)) {
      usedIds.add(recordedId);
      return recordedId;
    }
    const base = toWireAlphabet(recordedId === '' ? 'call' : recordedId);
    let id = base;
    for (let repeat = 1; usedIds.has(id); repeat++) {
      const place = repeat === 1 ? `-${messageSeq}-${partIndex}` : `-${messageSeq}-${partIndex}-${repeat}`;
      id = base.slice(0, MAX_WIRE_CHARS - place.length) + place;
    }
    usedIds.add(id);
    return id;
  };
}

/** A tool's name as providers accept it: models make up names that providers refuse. */
export const wireToolName = (name: string): string => (name === '' ? UNNAMED_TOOL : toWireAlphabet(name));

/** A call's input as providers accept it: always an object. Any other input is a model's mistake. */
export function wireInput(input: Json): Json {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  return isObject ? input : { rawInvalidInput: input };
}

const WITHOUT_OUTCOME = {
  pending: 'This call has not run.',
  awaiting_approval: 'This call has not run: it waits for approval.',
  awaiting_output: 'This call has no result yet: it waits for the client.',
  running: 'This call is still running: it has no result yet.',
  unknown: UNKNOWN_OUTCOME,
} as const;

type Output = NonNullable<ToolPart['output']>;

const hasOutcome = ({ state }: ToolPart): boolean => !(state in WITHOUT_OUTCOME);

/** Texts and files that the model is shown as a call's result; none for any other kind of result. */
export function itemsForModel(part: ToolPart): OutputItem[] {
  return part.output !== undefined && hasOutcome(part) ? itemsOf(part.output) : [];
}

function itemsOf(output: Output): OutputItem[] {
  if (output.type !== 'content') return [];
  return output.value.filter((item) => item.type !== 'text' || !isBlank(item.text));
}

/** The result that the model is shown for a call. It is never empty, in any state of the call. */
export function outputForModel(part: ToolPart, media?: MediaContents): ModelToolOutput {
  switch (part.state) {
    case 'pending':
    case 'awaiting_approval':
    case 'awaiting_output':
    case 'running':
    case 'unknown':
      return { type: 'error-text', value: WITHOUT_OUTCOME[part.state] };
    case 'completed':
      return withContent(part.output ?? { type: 'text', value: '' }, media);
    case 'error':
      return withContent(part.output ?? { type: 'error-text', value: 'The call failed.' }, media);
    case 'denied':
      return withContent(part.output ?? { type: 'execution-denied' }, media);
  }
}

function withContent(output: Output, media: MediaContents | undefined): ModelToolOutput {
  switch (output.type) {
    case 'content': {
      const items = itemsOf(output).map((item) => (item.type === 'text' ? item : fileForModel(item, media)));
      // Text alone is sent as text: chat completions know no other result.
      if (items.some(({ type }) => type === 'file')) return { type: 'content', value: items };
      const text = items.flatMap((item) => (item.type === 'text' ? [item.text] : [])).join('\n');
      return { type: 'text', value: text === '' ? NO_OUTPUT : text };
    }
    case 'json':
      return { type: 'json', value: output.value };
    case 'execution-denied': {
      const { reason } = output;
      return reason === undefined || isBlank(reason) ? { type: output.type } : { type: output.type, reason };
    }
    default:
      return { type: output.type, value: isBlank(output.value) ? NO_OUTPUT : output.value };
  }
}
