import { randomUUID } from 'node:crypto';
import { type Frame, type JsonObject, type PreparedReply, pieces } from './frames.ts';
import type { Ways } from './profile-rules.ts';

const FINISH_REASONS = {
  stop: 'stop',
  'tool-calls': 'tool_calls',
  length: 'length',
  'content-filter': 'content_filter',
} as const;

/**
 * The chunks of a chat-completions stream. OpenAI's own does not show reasoning; only the usage counts it.
 * @param ways of another endpoint
 */
export function* chatFrames(reply: PreparedReply, includeUsage: boolean, ways: Ways = {}): Generator<Frame> {
  const { thoughts, finishWords, hasNoReason = false, signsCalls = false } = ways;
  const base = {
    id: `chatcmpl-${randomUUID()}`,
    object: 'chat.completion.chunk',
    created: Math.floor(Date.now() / 1000),
    model: reply.model,
  };
  const chunk = (delta: JsonObject, finishReason: string | null = null): JsonObject => ({
    ...base,
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  });
  yield { kind: 'open', event: chunk({ role: 'assistant', content: reply.text === '' ? null : '' }) };
  if (thoughts !== undefined) {
    for (const piece of pieces(reply.reasoning, reply.chunkChars))
      yield { kind: 'chunk', event: chunk({ [thoughts]: piece }) };
  }
  for (const content of pieces(reply.text, reply.chunkChars)) yield { kind: 'chunk', event: chunk({ content }) };
  if (reply.sources.length > 0) yield { kind: 'structure', event: chunk({ annotations: annotationsOf(reply) }) };
  for (const [index, call] of reply.calls.entries()) {
    const signed = signsCalls ? { extra_content: { google: { thought_signature: `signed-${call.id}` } } } : {};
    const head = { index, id: call.id, type: 'function', function: { name: call.name, arguments: '' }, ...signed };
    yield { kind: 'structure', event: chunk({ tool_calls: [head] }) };
    for (const piece of pieces(call.arguments, reply.chunkChars)) {
      yield { kind: 'chunk', event: chunk({ tool_calls: [{ index, function: { arguments: piece } }] }) };
    }
  }
  for (const content of pieces(reply.textAfterTools, reply.chunkChars))
    yield { kind: 'chunk', event: chunk({ content }) };
  const word = finishWords?.[reply.finishReason] ?? FINISH_REASONS[reply.finishReason];
  yield { kind: 'end', event: chunk({}, hasNoReason ? '' : word) };
  if (includeUsage) yield { kind: 'end', event: { ...base, choices: [], usage: chatUsage(reply) } };
}

export function chatBody(reply: PreparedReply): JsonObject {
  const text = reply.text + reply.textAfterTools;
  const message = {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(reply.calls.length > 0 && {
      tool_calls: reply.calls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      })),
    }),
    ...(reply.sources.length > 0 && { annotations: annotationsOf(reply) }),
  };
  return {
    id: `chatcmpl-${randomUUID()}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model: reply.model,
    choices: [{ index: 0, message, finish_reason: FINISH_REASONS[reply.finishReason] }],
    usage: chatUsage(reply),
  };
}

function annotationsOf(reply: PreparedReply): JsonObject[] {
  return reply.sources.map(({ url, title }) => ({
    type: 'url_citation',
    url_citation: { start_index: 0, end_index: reply.text.length, url, title },
  }));
}

function chatUsage({ usage }: PreparedReply): JsonObject {
  return {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  };
}
