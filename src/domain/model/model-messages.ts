import type { Part, ProviderMetadata, ToolPart, ViewMessage } from '../transcript/message.ts';
import { type CallIds, createCallIds, outputForModel, wireInput, wireToolName } from './model-calls.ts';
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
  ModelAssistantPart,
  ModelMessage,
  ModelReasoningPart,
  ModelTextPart,
  ModelToolCallPart,
  ModelToolResultPart,
  ModelUserPart,
} from './model-message.ts';
import { isReasoningItem, keepValidReasoning } from './model-reasoning.ts';
import { shownParts } from './shown-parts.ts';

export type ToModelOptions = Readonly<{
  /** `provider/model` the request goes to: only what this model itself wrote keeps its reasoning and metadata. */
  model: string;
  /**
   * False where the API knows no calls that the provider runs itself (OpenAI's chat completions): they are then shown
   * as ordinary calls. Default true.
   */
  providerTools?: boolean;
  /** False for a model that takes no calls: those of earlier models are then told as texts. Default true. */
  calls?: boolean | undefined;
  /** True where results are texts: their files come in a message of the user after them. Default false. */
  filesAfterResults?: boolean | undefined;
  /** The bytes of the files that the view refers to as blobs; a notice stands for what is missing here. */
  media?: MediaContents | undefined;
  /** Said after everything else, as the user, in this request alone. */
  notice?: string | undefined;
}>;

/** Told of each message of a view where it stands in the request: from one place up to, and without, another. */
export type OriginOf = (message: ViewMessage, from: number, upto: number) => void;

/**
 * The view as the model is shown it. The only place that decides this; the result is valid for OpenAI (chat
 * completions, and Responses with `store: false`) and Anthropic, whatever the view holds.
 *
 * - The first message is the user's and the last one never the assistant's; notices stand in where the view has none.
 *   Assistant messages that nothing separates are separated by the same notice, so that appending never alters what
 *   was sent before. User messages in a row become one.
 * - An assistant message is one step: reasoning and text as recorded, then its calls, then one tool message that
 *   answers each of them in order, with an explanation where a call has no outcome, and a user message with the files of
 *   the results where these cannot hold any. What the provider ran itself stays,
 *   result included, in the assistant message, but only for the model it came from.
 * - What a prune or a limit took out of the view is shown as what stands for it.
 * - A model that takes no calls is told of them in texts of the assistant.
 * - No empty content. Files of the assistant, sources and step starts are not sent. A summary is a user message.
 *
 * Pure, and stable: appending messages to a view appends to the result, apart from a notice at its end.
 */
export function toModelMessages(
  view: readonly ViewMessage[],
  options: ToModelOptions & Readonly<{ endsWithNotice?: boolean }>,
  originOf: OriginOf = () => undefined,
): ModelMessage[] {
  const messages: ModelMessage[] = [];
  const callIds = createCallIds();
  for (const message of view) {
    const isOwn = message.model === options.model;
    const before = messages.length;
    if (message.role === 'user') {
      appendUser(messages, userContent(shownParts(message), isOwn, options.media));
      originOf(message, messages.length - 1, messages.length);
      continue;
    }
    const providerTools = isOwn && options.providerTools !== false;
    const calls = options.calls !== false;
    const { media, filesAfterResults = false } = options;
    const step = stepContent(message, { callIds, isOwn, providerTools, calls, media, filesAfterResults });
    appendUser(messages, summaries(message.parts));
    appendStep(messages, step);
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

function appendStep(messages: ModelMessage[], { content, results, files }: Step): void {
  if (content.length === 0) return;
  if (needsUser(messages)) {
    appendUser(messages, [{ type: 'text', text: messages.length === 0 ? START_NOTICE : CONTINUE_NOTICE }]);
  }
  messages.push({ role: 'assistant', content });
  if (results.length > 0) messages.push({ role: 'tool', content: results });
  appendUser(messages, files);
}

function userContent(parts: readonly Part[], isOwn: boolean, media: MediaContents | undefined): ModelUserPart[] {
  const content = parts.flatMap((part): ModelUserPart[] => {
    if (part.type === 'text') return isBlank(part.text) ? [] : [textForModel(part, isOwn)];
    if (part.type === 'file') return [{ ...fileForModel(part, media), ...optionsFor(part.providerMetadata, isOwn) }];
    return part.type === 'compaction' ? summaries([part]) : [];
  });
  return content.length > 0 ? content : [{ type: 'text', text: EMPTY_MESSAGE }];
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

/** What a provider attached to a part means nothing to another model, and may be refused by it. */
function optionsFor(metadata: ProviderMetadata | undefined, isOwn: boolean): { providerOptions?: ProviderMetadata } {
  return isOwn && metadata !== undefined ? { providerOptions: metadata } : {};
}

/** `files`: of the results, where they cannot stand in them. */
type Step = Readonly<{ content: ModelAssistantPart[]; results: ModelToolResultPart[]; files: ModelUserPart[] }>;
type StepOptions = Readonly<{
  callIds: CallIds;
  isOwn: boolean;
  providerTools: boolean;
  calls: boolean;
  media: MediaContents | undefined;
  filesAfterResults: boolean;
}>;

/**
 * Calls come last, in their order: text between a call and its result breaks the pairing for some providers. A
 * reasoning item moves with the part after it, and goes when that part is not sent.
 */
function stepContent(
  message: ViewMessage,
  { callIds, isOwn, providerTools, calls: takesCalls, media, filesAfterResults }: StepOptions,
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
      const shown = callForModel(part, callIds(part.toolCallId, message.seq, index), isOwn, media);
      if (!takesCalls) {
        place(body, { type: 'text', text: callAsText(part) });
      } else if (providerTools && isProviderResult(part)) {
        place(body, { ...shown.call, providerExecuted: true }, shown.result);
      } else {
        place(calls, shown.call);
        results.push(shown.result);
      }
    } else if (part.type === 'text' || part.type === 'file') {
      waiting = [];
    }
  });
  const content = keepValidReasoning([...body, ...calls]);
  if (!filesAfterResults) return { content, results, files: [] };
  const split = results.map(withoutFiles);
  return { content, results: split.map(({ result }) => result), files: split.flatMap(({ files }) => files) };
}

/** The result as a text, and its files with a word on where they come from. */
function withoutFiles(result: ModelToolResultPart): { result: ModelToolResultPart; files: ModelUserPart[] } {
  const { output, toolName, toolCallId } = result;
  if (output.type !== 'content') return { result, files: [] };
  const texts = output.value.map((item) =>
    item.type === 'text' ? item.text : fileAfterResults(item.mediaType, item.filename),
  );
  const shown = output.value.filter((item) => item.type === 'file');
  return {
    result: { ...result, output: { type: 'text', value: texts.join('\n') } },
    files: [{ type: 'text', text: fileOfResult(toolName, toolCallId) }, ...shown],
  };
}

/** A result in the provider's own form, which it takes back inside the assistant message. */
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
