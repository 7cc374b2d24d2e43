import { DONE } from '../../domain/model/finish-words.ts';
import { errorIn } from './error-event.ts';
import type { Mend } from './mend-stream.ts';
import { type Fields, isFields, readExactly } from './read-json.ts';

/**
 * Reads the chunks of chat completions as servers write them, and passes them on as the protocol has them. What carries
 * the answer is never guessed: a chunk whose text or call cannot be read stays as it is, and breaks the answer.
 *
 * - An error object in any place becomes the protocol's error.
 * - An empty finish reason is none. `[DONE]` behind content without any reason is given as the reason.
 * - Arguments as an object become their text. A number as an id becomes its text.
 * - Roles, ids, indices and usage that the answer does not need are dropped where they have another form.
 */
export function createChatMend(): Mend {
  let hasReason = false;
  let hasContent = false;
  let hasError = false;
  return {
    event(data) {
      if (data.trim() === DONE) {
        if (hasReason || hasError || !hasContent) return [data];
        hasReason = true;
        return [JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: DONE }] }), data];
      }
      const exact = readExactly(data);
      if (!isFields(exact)) return [data];
      const error = errorIn(exact);
      hasError ||= error !== null;
      if (error !== null) return [JSON.stringify({ error })];
      const chunk = mendChunk(exact);
      const choice = choiceOf(chunk);
      if (choice !== null) {
        hasReason ||= typeof choice['finish_reason'] === 'string';
        hasContent ||= hasAnswer(choice['delta']);
      }
      return [JSON.stringify(chunk)];
    },
    end: () => (hasReason || hasError ? [] : [NO_REASON]),
    whole: toChunks,
  };
}

const NO_REASON = JSON.stringify({ error: { message: 'the answer ended without a finish reason' } });

function choiceOf({ choices }: Fields): Fields | null {
  const [first] = Array.isArray(choices) ? choices : [];
  return isFields(first) ? first : null;
}

function hasAnswer(delta: unknown): boolean {
  if (!isFields(delta)) return false;
  const { content, refusal, tool_calls: calls } = delta;
  const hasText = (typeof content === 'string' || Array.isArray(content)) && content.length > 0;
  return hasText || (typeof refusal === 'string' && refusal !== '') || (Array.isArray(calls) && calls.length > 0);
}

function mendChunk(chunk: Fields): Fields {
  const { choices, usage } = chunk;
  return {
    ...withText(chunk, ['id', 'model']),
    created: undefined,
    choices: Array.isArray(choices) ? choices.map(mendChoice) : [],
    usage: mendUsage(usage),
  };
}

function mendChoice(choice: unknown): unknown {
  if (!isFields(choice)) return choice;
  // A server that was asked for a stream may still write whole messages into it.
  const { delta = choice['message'], finish_reason: reason } = choice;
  return {
    index: 0,
    ...choice,
    delta: mendDelta(delta),
    finish_reason: typeof reason === 'string' && reason.trim() === '' ? null : reason,
  };
}

function mendDelta(delta: unknown): unknown {
  if (!isFields(delta)) return delta;
  const { role: _, tool_calls: calls, function_call: old, ...rest } = delta;
  const listed = Array.isArray(calls) ? calls : isFields(calls) ? [calls] : [];
  // The form of 2023: one call, without an id.
  const all = listed.length === 0 && isFields(old) ? [{ index: 0, function: old }] : listed;
  return { ...rest, ...(all.length > 0 && { tool_calls: all.map(mendCall) }) };
}

function mendCall(call: unknown): unknown {
  if (!isFields(call)) return call;
  const { index, function: called, extra_content: extra } = call;
  const named = isFields(called) ? called : {};
  const argumentsText = named['arguments'];
  return {
    ...withText(call, ['id']),
    index: typeof index === 'string' && /^\d+$/.test(index) ? Number(index) : index,
    function: {
      ...named,
      ...(typeof argumentsText === 'object' && argumentsText !== null && { arguments: JSON.stringify(argumentsText) }),
    },
    extra_content: isFields(extra) ? extra : undefined,
  };
}

/** A number becomes its text; a value of another kind is dropped. */
function withText(fields: Fields, names: readonly string[]): Fields {
  const texts = names.map((name): [string, unknown] => {
    const value = fields[name];
    return [name, typeof value === 'number' ? String(value) : typeof value === 'string' ? value : undefined];
  });
  return { ...fields, ...Object.fromEntries(texts) };
}

/** Counts as numbers. Anything else counts as not told. */
function mendUsage(usage: unknown): unknown {
  if (!isFields(usage)) return undefined;
  return Object.fromEntries(
    Object.entries(usage).flatMap(([name, value]): [string, unknown][] => {
      if (isFields(value)) return [[name, mendUsage(value)]];
      const count = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
      return typeof count === 'number' && Number.isFinite(count) ? [[name, count]] : [];
    }),
  );
}

/** A whole completion in place of a stream, as the chunks that it would have been. Null: it is none. */
function toChunks(whole: Fields): string[] | null {
  const choice = choiceOf(whole);
  if (choice === null) return null;
  const { choices: _, usage, ...rest } = whole;
  const { message = choice['delta'], finish_reason: reason } = choice;
  if (!isFields(message)) return null;
  const { tool_calls: calls } = message;
  const indexed = Array.isArray(calls)
    ? { tool_calls: calls.map((call, index) => (isFields(call) ? { ...call, index } : call)) }
    : {};
  const chunks = [
    { ...rest, choices: [{ index: 0, delta: { ...message, ...indexed }, finish_reason: null }] },
    { ...rest, choices: [{ index: 0, delta: {}, finish_reason: reason ?? null }], usage },
  ];
  return [...chunks.map((chunk) => JSON.stringify(chunk)), DONE];
}
