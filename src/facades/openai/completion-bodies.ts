import { PROBLEM_KINDS } from '../../api/problems.ts';
import { formatId } from '../../domain/ids.ts';
import type { Usage } from '../../domain/usage.ts';
import { toOpenAiError } from '../../http/openai-error.ts';
import type { Completion, CompletionPiece } from './completion-writer.ts';
import type { StartedCompletion } from './start-completion.ts';

export type CompletionHead = Readonly<{ id: string; created: number; model: string }>;

/** The first fields of every body and chunk of one answer. `created` is in seconds, as in OpenAI's API. */
export function headOfAnswer({ runId, accepted }: StartedCompletion, model: string, nowMs: number): CompletionHead {
  const id = accepted === null ? runId : accepted.messageId;
  return { id: `chatcmpl-${formatId('run', id).slice('run_'.length)}`, created: Math.floor(nowMs / 1_000), model };
}

const toToolCall = ({ id, name, args }: Completion['calls'][number]) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: args },
});

const toAnnotation = ({ url, title, startIndex, endIndex }: Completion['citations'][number]) => ({
  type: 'url_citation' as const,
  url_citation: { start_index: startIndex, end_index: endIndex, title, url },
});

/** The body for a request without `stream`. */
export function toCompletionBody(head: CompletionHead, completion: Completion) {
  const { text, citations, calls, finishReason, usage } = completion;
  const message = {
    role: 'assistant' as const,
    content: text === '' && calls.length > 0 ? null : text,
    refusal: null,
    ...(citations.length > 0 && { annotations: citations.map(toAnnotation) }),
    ...(calls.length > 0 && { tool_calls: calls.map(toToolCall) }),
  };
  return {
    ...head,
    object: 'chat.completion' as const,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage: usageBody(usage),
  };
}

const usageBody = (usage: Usage) => ({
  prompt_tokens: usage.inputTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: usage.inputTokens + usage.outputTokens,
  prompt_tokens_details: { cached_tokens: usage.cacheReadTokens },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
});

/** What a waiting run tells in a field of its own. */
const toWaiting = ({ message, calls }: Extract<CompletionPiece, { kind: 'waiting' }>) => ({
  status: 'requires_action',
  message,
  calls: calls.map(({ id, kind, toolName: name, args, child }) => ({
    ...{ id, kind, name, arguments: JSON.stringify(args) },
    ...(child !== undefined && { agent: child.agent }),
  })),
});

/**
 * The end of a whole answer whose run waits for people.
 * @param request the one that reads the answer of the run afterwards
 */
export const waitingError = (message: string, request: string) => ({
  code: REQUIRES_ACTION,
  message: `${message}. The run goes on afterwards: ${request} reads its answer, and a request with stream: true waits for it`,
});

const REQUIRES_ACTION = 'requires_action';

/** Status and error of a run that ended without an answer. Sending the same request again would not help. */
export function toFailure({ code, message }: NonNullable<Completion['error']>) {
  const status = statusOf(code);
  return { status, error: toOpenAiError({ code, message }, status) };
}

/** The response in place of a whole answer, with OpenAI's error. */
export function toFailedResponse(
  failure: NonNullable<Completion['error']>,
  headers: Readonly<Record<string, string>>,
): Response {
  const { status, error } = toFailure(failure);
  return Response.json({ error }, { status, headers });
}

function statusOf(code: string): number {
  if (code === REQUIRES_ACTION) return 409;
  if (code === 'context_exhausted' || !Object.hasOwn(PROBLEM_KINDS, code)) return 400;
  return PROBLEM_KINDS[code as keyof typeof PROBLEM_KINDS].status;
}

export function createFrames(head: CompletionHead, withUsage: boolean): (piece: CompletionPiece | 'begin') => string {
  const frame = (body: object): string => `data: ${JSON.stringify(body)}\n\n`;
  const object = 'chat.completion.chunk' as const;
  const usage = withUsage ? { usage: null } : {};
  const chunk = (delta: object, finishReason: Completion['finishReason'] = null, more = {}): string => {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
    return frame({ ...head, object, choices, ...usage, ...more });
  };
  const end = (completion: Completion): string => {
    const { citations, calls, finishReason, error } = completion;
    if (error !== null) return frame({ error: toFailure(error).error });
    const delta =
      calls.length === 0 ? {} : { tool_calls: calls.map((call, index) => ({ index, ...toToolCall(call) })) };
    // All annotations in one chunk: OpenAI's library keeps only the last such chunk.
    const annotations = citations.length === 0 ? '' : chunk({ annotations: citations.map(toAnnotation) });
    const frames = annotations + (calls.length === 0 ? '' : chunk(delta));
    const usageChunk = { ...head, object, choices: [], usage: usageBody(completion.usage) };
    return `${frames}${chunk({}, finishReason)}${withUsage ? frame(usageChunk) : ''}data: [DONE]\n\n`;
  };
  return (piece) => {
    if (piece === 'begin') return chunk({ role: 'assistant', content: '', refusal: null });
    switch (piece.kind) {
      case 'comment':
        return `: ${piece.comment}\n\n`;
      case 'text':
        return chunk({ content: piece.text });
      case 'waiting':
        // Clients pass over a chunk without text; those that know the field read it.
        return chunk({}, null, { baton: toWaiting(piece) });
      case 'end':
        return end(piece.completion);
    }
  };
}
