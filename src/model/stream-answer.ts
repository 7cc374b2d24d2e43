import { setImmediate as nextRound } from 'node:timers/promises';
import {
  asSchema,
  jsonSchema,
  type LanguageModel,
  type LanguageModelCallEndEvent,
  type LanguageModelStreamPart,
  type Schema,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type ToolChoice,
  type ToolSet,
} from 'ai';
import { z } from 'zod';
import { toObjectSchema } from '../domain/object-schema.ts';
import type { Tool } from '../tools/tool.ts';
import type { CallSettings } from './call-settings.ts';
import { leaveToProvider, type ModelPrompt } from './model-prompt.ts';
import { pieceRooms } from './wire/piece-room.ts';

export type AnswerRequest = Readonly<{
  model: LanguageModel;
  prompt: ModelPrompt;
  /** Offered to the model. None is run here. */
  tools: readonly Tool[];
  /** Default: the model decides whether it calls tools. */
  toolChoice?: ToolChoice<ToolSet> | undefined;
  settings: CallSettings;
  signal: AbortSignal;
}>;

export type AnswerPart = LanguageModelStreamPart<ToolSet>;
export type AnswerEnd = LanguageModelCallEndEvent<ToolSet>;

export type AnswerHooks = Readonly<{
  onPart: (part: AnswerPart) => void;
  /** The answer is whole. Its errors are swallowed by the SDK. An abort does not wait for it. */
  onEnd: (end: AnswerEnd) => Promise<void> | void;
}>;

/** The end of a stream. The answer itself comes with `onEnd`. */
export type StreamEnd = Readonly<{ kind: 'ended' } | { kind: 'aborted' } | { kind: 'failed'; error: unknown }>;

/** `headers`: of the response, if it began well. The error of an answer that breaks off later has none. */
export type StreamedAnswer = Readonly<{ end: StreamEnd; headers: Readonly<Record<string, string>> | null }>;

/**
 * Asks a model once, and passes its answer on part by part. Never throws. An abort ends it at once, also where the
 * model does not listen to the signal. An answer that grows beyond what this process may hold fails.
 *
 * `streamText` would run tools and steps, too: for each answer it makes a dozen streams, and ten times the work.
 */
export async function streamAnswer(request: AnswerRequest, hooks: AnswerHooks): Promise<StreamedAnswer> {
  const { signal } = request;
  let headers: StreamedAnswer['headers'] = null;
  let failure: { error: unknown } | null = null;
  using room = pieceRooms.open();
  let chars = 0;
  const onPart = (part: AnswerPart): void => {
    if (part.type === 'error') failure ??= { error: part.error };
    chars += charsOf(part);
    room.hold(chars);
    hooks.onPart(part);
  };
  let isRead = false;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  aborted.catch(() => undefined);
  const onAbort = (): void => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    const { stream, response } = await Promise.race([begin(request, hooks), aborted]);
    headers = response?.headers ?? null;
    isRead = await readAll(stream, signal, onPart);
  } catch (error) {
    failure ??= { error };
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
  if (!isRead && signal.aborted) return { end: { kind: 'aborted' }, headers };
  return { end: failure === null ? { kind: 'ended' } : { kind: 'failed', ...failure }, headers };
}

function begin({ model, prompt, tools, toolChoice, settings, signal }: AnswerRequest, { onEnd }: AnswerHooks) {
  return streamLanguageModelCall({
    model,
    ...prompt,
    download: leaveToProvider,
    ...(tools.length > 0 && { tools: toSdkTools(tools), ...(toolChoice !== undefined && { toolChoice }) }),
    abortSignal: signal,
    ...settings,
    onLanguageModelCallEnd: onEnd,
  });
}

/** False: the signal was aborted before the end. @throws errors of the stream */
async function readAll(
  stream: ReadableStream<AnswerPart>,
  signal: AbortSignal,
  onPart: (part: AnswerPart) => void,
): Promise<boolean> {
  const reader = stream.getReader();
  // Ends the read that waits.
  const stop = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', stop, { once: true });
  let isWhole = false;
  try {
    if (signal.aborted) stop();
    for (;;) {
      const reading = reader.read();
      // After the end only an error of the SDK may follow, in the same turn. A provider may keep its connection open, and
      // a closed one could not be used again: the rest is read by the way, and a broken one harms a whole answer no more.
      const read: Read | null = isWhole
        ? await Promise.race([reading.catch(() => null), nextRound(null)])
        : await reading;
      if (read === null) void drain(reader, reading);
      if (signal.aborted) return false;
      if (read === null || read.done) return true;
      onPart(read.value);
      isWhole ||= read.value.type === 'model-call-end';
    }
  } catch (error) {
    // The answer is not read to its end, so the provider may stop.
    void reader.cancel(error).catch(() => undefined);
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

type Read = Awaited<ReturnType<ReadableStreamDefaultReader<AnswerPart>['read']>>;

async function drain(reader: ReadableStreamDefaultReader<AnswerPart>, reading: Promise<Read>): Promise<void> {
  try {
    let { done } = await reading;
    while (!done) ({ done } = await reader.read());
  } catch {
    // The answer is whole.
  }
}

/** The characters for which a part without a text counts. */
const PART_CHARS = 1_000;

/** Characters that a part adds to the answer. */
function charsOf(part: AnswerPart): number {
  switch (part.type) {
    case 'text-delta':
    case 'reasoning-delta':
      return part.text.length;
    case 'tool-input-delta':
      return part.delta.length;
    case 'file':
    case 'reasoning-file':
      return part.file.base64.length;
    default:
      return PART_CHARS;
  }
}

/** False for the SDK's own marks of a beginning, and for errors. */
export function comesFromModel({ type }: AnswerPart): boolean {
  return type !== 'model-call-start' && type !== 'model-call-response-metadata' && type !== 'error';
}

const sdkSchemas = new WeakMap<Tool['inputSchema'], Schema<unknown>>();

/** The same object for the same schema: for a new one the SDK derives the JSON Schema again in every request. */
function toSdkSchema(schema: Tool['inputSchema']): Schema<unknown> {
  const cached = sdkSchemas.get(schema);
  if (cached !== undefined) return cached;
  // Without a validator: arguments are checked before a call starts, by `argumentsProblem`.
  const plainSchema = schema instanceof z.ZodType ? asSchema(schema).jsonSchema : schema;
  const read = toObjectSchema(plainSchema);
  const converted: Schema<unknown> = jsonSchema('schema' in read ? read.schema : plainSchema);
  sdkSchemas.set(schema, converted);
  return converted;
}

/** Tools as a model is offered them. A step and a summarizer send the same bytes, for the provider's cache. */
export function toSdkTools(tools: readonly Tool[]): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, inputSchema, strict }) => [
      name,
      {
        ...{ type: 'dynamic' as const, description, inputSchema: toSdkSchema(inputSchema) },
        ...(strict !== undefined && { strict }),
      },
    ]),
  );
}
