import type { ModelPrompt } from './model-prompt.ts';

/** Names and marks of the protocol, which errors may show. */
const NOT_SAID = new Set(['type', 'role', 'toolCallId', 'toolName', 'mediaType', 'approvalId', 'providerOptions']);

/** All texts of a prompt: instructions, messages, inputs and outputs of calls, names of files. */
export function* sentTexts({ instructions, messages }: ModelPrompt): Generator<string, void, undefined> {
  yield* textsIn(instructions);
  yield* textsIn(messages);
}

function* textsIn(value: unknown): Generator<string, void, undefined> {
  if (typeof value === 'string') yield value;
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  if (value instanceof URL) {
    yield value.href;
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    if (NOT_SAID.has(key)) continue;
    // Errors quote the arguments of a call as a whole.
    if (key === 'input') yield JSON.stringify(inner) ?? '';
    yield* textsIn(inner);
  }
}
