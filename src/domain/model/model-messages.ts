import type { Part, ProviderMetadata, ToolPart, ViewMessage } from '../transcript/message.ts';
import {
  type CallIdForm,
  type CallIds,
  createCallIds,
  outputForModel,
  wireInput,
  wireToolName,
} from './model-calls.ts';
import { fileForModel, type MediaContents } from './model-files.ts';
import {
  CONTINUE_NOTICE,
  EMPTY_MESSAGE,
  fileAfterResults,
  fileOfResult,
  frameCall,
  frameSummary,
  isBlank,
  START_NOTICE,
} from './model-frames.ts';
import type {
  ModelAssistantMessage,
  ModelAssistantPart,
  ModelMessage,
  ModelReasoningPart,
  ModelTextPart,
  ModelToolCallPart,
  ModelToolMessage,
  ModelToolResultPart,
  ModelUserPart,
} from './model-message.ts';
import { isReasoningItem, keepValidReasoning } from './model-reasoning.ts';
import { hasFiles } from './shown-media.ts';
import { requestParts, shownParts } from './shown-parts.ts';

export type ToModelOptions = Readonly<{
  /** `provider/model` of the request. Only parts that this model wrote keep their reasoning and metadata. */
  model: string;
  /** False: the API has no provider-run calls (OpenAI's chat completions); shown as ordinary ones. Default true. */
  providerTools?: boolean;
  /** False: the model takes no calls, and reads those of earlier models as texts. Default true. */
  calls?: boolean | undefined;
  /** True: tool results are texts, and their files follow in a user message. Default false. */
  filesAfterResults?: boolean | undefined;
  /** Default: `plain`. */
  callIds?: CallIdForm | undefined;
  /** Bytes of the view's blobs; a notice replaces a missing one. */
  media?: MediaContents | undefined;
  /** Added at the end as the user's text, in this request only. */
  notice?: string | undefined;
}>;

/** Gets the place of each message of a view in the request: from `from` up to, and without, `upto`. */
export type OriginOf = (message: ViewMessage, from: number, upto: number) => void;

/**
 * The view as the model is shown it; nothing else decides this. The result is valid for OpenAI (chat completions, and
 * Responses with `store: false`) and Anthropic, whatever the view holds.
 *
 * - The first message is the user's, and the last one never the assistant's; notices fill in. The same notice separates
 *   adjacent assistant messages, so that appending never changes earlier messages. User messages in a row become one.
 * - An assistant message is one step: reasoning and text as recorded, then its calls, then one tool message that
 *   answers each of them in order, then a user message with files that results cannot hold. A call without an outcome
 *   gets an explanation.
 * - A call that the provider ran itself stays, with its result, in the assistant message of the model that wrote it.
 * - Labels tell queued messages apart that one step drained together; the transcript keeps them without.
 * - A placeholder stands for content that a prune or a limit removed from the view.
 * - A model that takes no calls reads them as texts of the assistant.
 * - No content is empty. A message of the user without any is left out right after results.
 * - Files of the assistant, sources and step starts are not sent. A summary is a user message.
 *
 * Pure and stable: appending messages to a view appends to the result, apart from a notice at its end.
 */
export function toModelMessages(
  view: readonly ViewMessage[],
  options: ToModelOptions & Readonly<{ endsWithNotice?: boolean }>,
  originOf: OriginOf = () => undefined,
): ModelMessage[] {
  const messages: ModelMessage[] = [];
  const callIds = createCallIds(options.callIds);
  for (const message of view) {
    const isOwn = message.model === options.model;
    const before = messages.length;
    if (message.role === 'user') {
      const said = saidTo(messages.at(-1), userContent(requestParts(message), isOwn, options.media));
      appendUser(messages, said);
      originOf(message, said.length === 0 ? before : messages.length - 1, messages.length);
      continue;
    }
    const providerTools = isOwn && options.providerTools !== false;
    const calls = options.calls !== false;
    const { media, filesAfterResults = false } = options;
    const rendering = { isOwn, providerTools, calls, media, filesAfterResults };
    appendUser(messages, summaries(message.parts));
    appendStep(messages, stepOf(message, callIdsOf(message, callIds), rendering));
    originOf(message, before, messages.length);
  }
  const { endsWithNotice = true } = options;
  const { notice = endsWithNotice && needsUser(messages) ? CONTINUE_NOTICE : null } = options;
  if (notice !== null) appendUser(messages, [{ type: 'text', text: notice }]);
  return messages;
}

const needsUser = (messages: readonly ModelMessage[]): boolean =>
  messages.length === 0 || messages.at(-1)?.role === 'assistant';

function appendUser(messages: ModelMessage[], content: ModelUserPart[]): void {
  if (content.length === 0) return;
  const last = messages.at(-1);
  if (last?.role === 'user') last.content.push(...content);
  else messages.push({ role: 'user', content });
}

function appendStep(messages: ModelMessage[], { answer, results, files }: Step): void {
  if (answer.content.length === 0) return;
  if (needsUser(messages)) {
    appendUser(messages, [{ type: 'text', text: messages.length === 0 ? START_NOTICE : CONTINUE_NOTICE }]);
  }
  messages.push(answer);
  if (results.content.length > 0) messages.push(results);
  appendUser(messages, files);
}

function userContent(parts: readonly Part[], isOwn: boolean, media: MediaContents | undefined): ModelUserPart[] {
  return parts.flatMap((part): ModelUserPart[] => {
    if (part.type === 'text') return isBlank(part.text) ? [] : [textForModel(part, isOwn)];
    if (part.type === 'file') return [{ ...fileForModel(part, media), ...optionsFor(part.providerMetadata, isOwn) }];
    return part.type === 'compaction' ? summaries([part]) : [];
  });
}

/**
 * The content of a user message for the model. An empty message becomes a placeholder, but not right behind results of
 * tools: the model answers those as they are.
 */
function saidTo(last: ModelMessage | undefined, content: ModelUserPart[]): ModelUserPart[] {
  return content.length > 0 || last?.role === 'tool' ? content : [{ type: 'text', text: EMPTY_MESSAGE }];
}

function summaries(parts: readonly Part[]): ModelTextPart[] {
  return parts.flatMap((part) =>
    part.type === 'compaction' && !isBlank(part.text) ? [{ type: 'text' as const, text: frameSummary(part.text) }] : [],
  );
}

const textForModel = (part: Extract<Part, { type: 'text' }>, isOwn: boolean): ModelTextPart => ({
  type: 'text',
  text: part.text,
  ...optionsFor(part.providerMetadata, isOwn),
});

/** A provider's metadata means nothing to another model, which may refuse it. */
function optionsFor(metadata: ProviderMetadata | undefined, isOwn: boolean): { providerOptions?: ProviderMetadata } {
  return isOwn && metadata !== undefined ? { providerOptions: metadata } : {};
}

/** `files`: of results that cannot hold them. */
type Step = Readonly<{ answer: ModelAssistantMessage; results: ModelToolMessage; files: ModelUserPart[] }>;
type StepOptions = Readonly<{
  isOwn: boolean;
  providerTools: boolean;
  calls: boolean;
  media: MediaContents | undefined;
  filesAfterResults: boolean;
}>;

/** The ids of the message's calls, by part index. */
function callIdsOf(message: ViewMessage, callIds: CallIds): ReadonlyMap<number, string> {
  const calls = message.parts.flatMap((part, index) => (part.type === 'tool' ? [{ part, index }] : []));
  return new Map(calls.map(({ part, index }) => [index, callIds(part.toolCallId, message.seq, index)]));
}

/** The steps that were made last, by message: the next request has them again, as the same objects. */
const shownSteps = new WeakMap<ViewMessage, Readonly<{ key: string; step: Step }>>();

/** A step as the model is shown it. One without files, whose bytes and places are the request's, is made once. */
function stepOf(message: ViewMessage, ids: ReadonlyMap<number, string>, options: StepOptions): Step {
  if (hasFiles(message)) return stepContent(message, ids, options);
  const { isOwn, providerTools, calls } = options;
  const key = [isOwn, providerTools, calls, ...ids.values()].join(' ');
  const cached = shownSteps.get(message);
  if (cached?.key === key) return cached.step;
  const step = stepContent(message, ids, options);
  shownSteps.set(message, { key, step });
  return step;
}

/**
 * Puts calls last, in order, because text between a call and its result breaks the pairing for some providers. A
 * reasoning item moves with the part after it, and goes if that part is not sent.
 */
function stepContent(
  message: ViewMessage,
  ids: ReadonlyMap<number, string>,
  { isOwn, providerTools, calls: takesCalls, media, filesAfterResults }: StepOptions,
): Step {
  const body: ModelAssistantPart[] = [];
  const calls: ModelAssistantPart[] = [];
  const results: ModelToolResultPart[] = [];
  let waiting: ModelReasoningPart[] = [];
  const place = (target: ModelAssistantPart[], ...parts: ModelAssistantPart[]): void => {
    target.push(...waiting, ...parts);
    waiting = [];
  };
  shownParts(message).forEach((part, index) => {
    if (part.type === 'reasoning' && isOwn) {
      const reasoning: ModelReasoningPart = {
        type: 'reasoning',
        text: part.text,
        ...optionsFor(part.providerMetadata, isOwn),
      };
      if (isReasoningItem(reasoning)) waiting.push(reasoning);
      else body.push(reasoning);
    } else if (part.type === 'text' && !isBlank(part.text)) {
      place(body, textForModel(part, isOwn));
    } else if (part.type === 'tool') {
      const visible = callForModel(part, ids.get(index) ?? '', isOwn, media);
      if (!takesCalls) {
        place(body, { type: 'text', text: callAsText(part) });
      } else if (providerTools && isProviderResult(part)) {
        place(body, { ...visible.call, providerExecuted: true }, visible.result);
      } else {
        place(calls, visible.call);
        results.push(visible.result);
      }
    } else if (part.type === 'text' || part.type === 'file') {
      waiting = [];
    }
  });
  const answer = { role: 'assistant' as const, content: keepValidReasoning([...body, ...calls]) };
  if (!filesAfterResults) return { answer, results: { role: 'tool', content: results }, files: [] };
  const split = results.map(withoutFiles);
  return {
    answer,
    results: { role: 'tool', content: split.map(({ result }) => result) },
    files: split.flatMap(({ files }) => files),
  };
}

/** A result as text, and its files with a text that names their origin. */
function withoutFiles(result: ModelToolResultPart): { result: ModelToolResultPart; files: ModelUserPart[] } {
  const { output, toolName, toolCallId } = result;
  if (output.type !== 'content') return { result, files: [] };
  const texts = output.value.map((item) =>
    item.type === 'text' ? item.text : fileAfterResults(item.mediaType, item.filename),
  );
  const files = output.value.filter((item) => item.type === 'file');
  return {
    result: { ...result, output: { type: 'text', value: texts.join('\n') } },
    files: [{ type: 'text', text: fileOfResult(toolName, toolCallId) }, ...files],
  };
}

/** Whether the result has the provider's own form, which goes back inside the assistant message. */
function isProviderResult(part: ToolPart): boolean {
  return part.providerExecuted === true && part.state === 'completed' && part.output?.type === 'json';
}

function callAsText(part: ToolPart): string {
  const output = outputForModel(part);
  const text = output.type === 'execution-denied' ? `denied: ${output.reason ?? 'no reason was given'}` : output.value;
  const result = typeof text === 'string' ? text : JSON.stringify(text);
  return frameCall(wireToolName(part.toolName), JSON.stringify(wireInput(part.input)), result);
}

function callForModel(
  part: ToolPart,
  toolCallId: string,
  isOwn: boolean,
  media: MediaContents | undefined,
): { call: ModelToolCallPart; result: ModelToolResultPart } {
  const toolName = wireToolName(part.toolName);
  return {
    call: {
      type: 'tool-call',
      toolCallId,
      toolName,
      input: wireInput(part.input),
      ...optionsFor(part.providerMetadata, isOwn),
    },
    result: {
      type: 'tool-result',
      toolCallId,
      toolName,
      output: outputForModel(part, media),
      ...optionsFor(part.resultProviderMetadata, isOwn),
    },
  };
}
