import { BatonError } from '../errors.ts';
import { NOT_RUN } from '../run/settlement.ts';
import type { FilePart, MessageRole, OutputItem, Part, ToolOutput, ToolPart } from '../transcript/message.ts';
import {
  type ImportedFileData,
  type ImportedOptions,
  type ImportedOutput,
  type ImportedPart,
  type ImportedResult,
  importedMessageSchema,
} from './model-import.ts';

export type NewMessage = { role: MessageRole; parts: Part[] };

export type ImportedMessages = Readonly<{
  messages: NewMessage[];
  /** Tool results that answer no call of the assistant message before them. */
  droppedResults: number;
  /** Parts that Baton cannot represent: approvals, a provider's own file references and opaque parts. */
  droppedParts: number;
}>;

/**
 * The inverse of `toModelMessages`, for imports. Results go to the calls that they answer, by position if ids repeat
 * within a batch; an unanswered call becomes an error result and never runs.
 *
 * @param messages `ModelMessage[]` of the AI SDK, not yet validated
 * @throws BatonError `invalid_request` for a malformed message or a system message (instructions belong to the agent)
 */
export function fromModelMessages(messages: readonly unknown[]): ImportedMessages {
  const imported: NewMessage[] = [];
  const dropped: Dropped = { results: 0, parts: 0 };
  let batch: OpenCalls = new Map();
  for (const [index, message] of messages.entries()) {
    const parsed = parseMessage(message, index);
    if (parsed.role !== 'tool') {
      batch = new Map();
      imported.push({ role: parsed.role, parts: [] });
    }
    const parts = imported.at(-1)?.parts ?? [];
    for (const part of parsed.content) {
      if (part.type === 'tool-result') {
        answer(batch, part, dropped);
        continue;
      }
      const own = partOf(part);
      if (own === null) dropped.parts++;
      else parts.push(own);
      if (own?.type === 'tool') addTo(batch, own);
    }
  }
  return { messages: imported.map(closeCalls), droppedResults: dropped.results, droppedParts: dropped.parts };
}

type Dropped = { results: number; parts: number };

/** Calls of a batch without a result, in order, by id. */
type OpenCalls = Map<string, ToolPart[]>;

function addTo(batch: OpenCalls, call: ToolPart): void {
  const calls = batch.get(call.toolCallId);
  if (calls === undefined) batch.set(call.toolCallId, [call]);
  else calls.push(call);
}

function parseMessage(message: unknown, index: number) {
  const parsed = importedMessageSchema.safeParse(message);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const path = [`messages[${index}]`, ...(issue?.path ?? [])].join('.');
    throw new BatonError('invalid_request', `${path}: ${issue?.message ?? 'malformed'}`, { cause: parsed.error });
  }
  if (parsed.data.role === 'system') {
    throw new BatonError('invalid_request', `messages[${index}]: system messages belong to the agent's instructions.`);
  }
  return parsed.data;
}

function partOf(part: Exclude<ImportedPart, ImportedResult>): Part | null {
  switch (part.type) {
    case 'text':
    case 'reasoning':
      return {
        type: part.type,
        text: part.text,
        ...metadataFrom('providerOptions' in part ? part.providerOptions : undefined),
      };
    case 'file':
      return fileOf(part.data, part);
    case 'image':
      return fileOf(part.image, part);
    case 'tool-call':
      return {
        type: 'tool',
        toolCallId: part.toolCallId,
        toolName: part.toolName,
        input: part.input,
        state: 'pending',
        ...(part.providerExecuted !== undefined && { providerExecuted: part.providerExecuted }),
        ...metadataFrom(part.providerOptions),
      };
    default:
      return null;
  }
}

function fileOf(
  data: ImportedFileData,
  part: { mediaType: string; filename?: string | undefined; providerOptions?: ImportedOptions },
): FilePart | null {
  if (data === null) return null;
  const { mediaType, filename } = part;
  const url = 'url' in data ? data.url : `data:${mediaType};base64,${data.data}`;
  return {
    type: 'file',
    mediaType,
    url,
    ...(filename !== undefined && { filename }),
    ...metadataFrom(part.providerOptions),
  };
}

const metadataFrom = (options: ImportedOptions) => (options === undefined ? {} : { providerMetadata: options });

/** Gives the result to the first call with its id that has none. */
function answer(batch: OpenCalls, result: ImportedResult, dropped: Dropped): void {
  const call = batch.get(result.toolCallId)?.shift();
  if (call === undefined) {
    dropped.results++;
    return;
  }
  call.output = outputOf(result.output, dropped);
  call.state = STATE_OF[call.output.type];
  if (result.providerOptions !== undefined) call.resultProviderMetadata = result.providerOptions;
}

const STATE_OF = {
  text: 'completed',
  json: 'completed',
  content: 'completed',
  'error-text': 'error',
  'execution-denied': 'denied',
} as const;

function outputOf(output: ImportedOutput, dropped: Dropped): ToolOutput {
  switch (output.type) {
    case 'error-json':
      return { type: 'error-text', value: JSON.stringify(output.value) };
    case 'content': {
      const items = output.value.flatMap((item) => itemOf(item) ?? []);
      dropped.parts += output.value.length - items.length;
      if (items.some(({ type }) => type === 'file')) return { type: 'content', value: items };
      return { type: 'text', value: items.flatMap((item) => (item.type === 'text' ? [item.text] : [])).join('\n') };
    }
    default:
      return output;
  }
}

function itemOf(item: Extract<ImportedOutput, { type: 'content' }>['value'][number]): OutputItem | null {
  if (item === null || item.type === 'text') return item;
  return fileOf(item.data, { mediaType: item.mediaType, filename: item.filename });
}

function closeCalls(message: NewMessage): NewMessage {
  const parts = message.parts.map(
    (part): Part =>
      part.type === 'tool' && part.output === undefined
        ? { ...part, state: 'error', output: { type: 'error-text', value: NOT_RUN } }
        : part,
  );
  return { role: message.role, parts };
}
