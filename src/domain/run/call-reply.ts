import type { CallQuestion, QuestionItem } from '../transcript/call-question.ts';
import type { Json } from '../transcript/message.ts';
import type { CallAnswer } from '../transcript/required-action.ts';
import { checkOutput, isQuickToCheck, withoutFormats } from './output-check.ts';

/** A reply by the keys of its items, or the words for whoever answered in another form. */
export type ReadReply = Readonly<{ contents: Readonly<Record<string, Json>> } | { problem: string }>;

/**
 * Reads the output with which a question was answered: the filled form, or with several items an object that has one by
 * each key. A field that was left out takes the form's default.
 */
export function readReply({ items }: CallQuestion, output: Json): ReadReply {
  const [only] = items;
  const named = items.length === 1 && only !== undefined ? { [only.key]: output } : output;
  if (!isObject(named)) {
    return {
      problem: `the tool asks ${items.length} questions: answer with an object that has one answer by each key`,
    };
  }
  const contents: Record<string, Json> = {};
  for (const item of items) {
    const filled = fill(item, named[item.key] ?? null);
    if ('problem' in filled) return { problem: `${item.key}: ${filled.problem}` };
    contents[item.key] = filled.value;
  }
  return { contents };
}

function fill({ schema, url }: QuestionItem, submitted: Json): Readonly<{ value: Json } | { problem: string }> {
  if (schema === undefined || url !== undefined) return { value: isObject(submitted) ? submitted : {} };
  if (!isObject(submitted)) return { problem: 'the answer is the filled form, an object' };
  const value = { ...defaultsOf(schema), ...submitted };
  const form = withoutFormats(schema);
  // Another form is checked by the tool alone: its check may take for ever.
  return isQuickToCheck(form) ? checkOutput({ ...(form as typeof schema), type: 'object' }, value) : { value };
}

function defaultsOf(schema: Readonly<Record<string, Json>>): Record<string, Json> {
  const properties = schema['properties'] ?? null;
  if (!isObject(properties)) return {};
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, property]) => {
      const value = isObject(property) ? property['default'] : undefined;
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

const isObject = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The words for whoever gave an output that does not answer the question. Null: it does. */
export function problemOfReply(question: CallQuestion | null, answer: CallAnswer): string | null {
  if (question === null || answer.kind !== 'output') return null;
  const reply = readReply(question, answer.output);
  return 'problem' in reply ? reply.problem : null;
}
