import type { ResponseRequest } from '../../api/response-request.ts';
import type { Usage } from '../../domain/usage.ts';
import type { Completion } from './completion-writer.ts';
import { echoOf } from './response-echo.ts';
import {
  conversationId,
  createdAtOf,
  formatCallItemId,
  formatResponseId,
  formatTextId,
  type ResponsePlace,
} from './response-ids.ts';

export type ResponseHead = Readonly<{
  place: ResponsePlace;
  sessionId: string;
  /** The agent. */
  model: string;
  /** The request that is answered. Null: the response is read later. */
  request: ResponseRequest | null;
}>;

type Call = Completion['calls'][number];

/** A response before its end. `text`: the part of the answer that is there. */
export function openBody(head: ResponseHead, status: 'queued' | 'in_progress', text = '') {
  const output = text === '' ? [] : [textItem(head, text, [], 'in_progress')];
  const unknown = { completed_at: null, error: null, incomplete_details: null, usage: null };
  return { ...fieldsOf(head), ...unknown, status, output, output_text: text };
}

export function endedBody(head: ResponseHead, completion: Completion) {
  const { text, calls, citations, usage, endedAt } = completion;
  const { status, reason } = endOf(completion);
  const state = status === 'completed' ? 'completed' : 'incomplete';
  const texts = text === '' ? [] : [textItem(head, text, citations, state)];
  return {
    ...fieldsOf(head),
    status,
    completed_at: status === 'completed' && endedAt != null ? Math.floor(endedAt.getTime() / 1_000) : null,
    error: completion.error === null ? null : errorBody(completion.error),
    incomplete_details: reason === null ? null : { reason },
    output: [...texts, ...calls.map((call) => callItem(call, 'completed'))],
    output_text: text,
    usage: usageBody(usage),
  };
}

function fieldsOf({ place, sessionId, model, request }: ResponseHead) {
  return {
    id: formatResponseId(place),
    object: 'response' as const,
    created_at: createdAtOf(place),
    model,
    conversation: { id: conversationId(sessionId) },
    ...echoOf(request),
  };
}

/** OpenAI's codes of a failed response, for ours. Any other is `server_error`. */
const ERROR_CODES: Readonly<Record<string, string>> = {
  rate_limited: 'rate_limit_exceeded',
  invalid_request: 'invalid_prompt',
  content_policy: 'invalid_prompt',
  context_exhausted: 'invalid_prompt',
  input_overflow: 'invalid_prompt',
};

/** An error with one of OpenAI's codes, which clients decode as an enum. Baton's own code stands beside it. */
export const errorBody = ({ code, message }: NonNullable<Completion['error']>) => ({
  code: ERROR_CODES[code] ?? 'server_error',
  message,
  baton: { code },
});

type Status = 'completed' | 'incomplete' | 'failed' | 'cancelled';

function endOf({ error, finishReason }: Completion): Readonly<{ status: Status; reason: string | null }> {
  if (error !== null) return { status: error.code === 'cancelled' ? 'cancelled' : 'failed', reason: null };
  if (finishReason === 'length') return { status: 'incomplete', reason: 'max_output_tokens' };
  if (finishReason === 'content_filter') return { status: 'incomplete', reason: 'content_filter' };
  return { status: 'completed', reason: null };
}

export function textItem(
  { place }: ResponseHead,
  text: string,
  citations: Completion['citations'],
  status: 'in_progress' | 'completed' | 'incomplete',
) {
  const content = text === '' && status === 'in_progress' ? [] : [textPart(text, citations)];
  return { id: formatTextId(place), type: 'message' as const, role: 'assistant' as const, status, content };
}

export const textPart = (text: string, citations: Completion['citations']) => ({
  type: 'output_text' as const,
  text,
  annotations: citations.map(toAnnotation),
  logprobs: [],
});

export const toAnnotation = ({ url, title, startIndex, endIndex }: Completion['citations'][number]) => ({
  type: 'url_citation' as const,
  start_index: startIndex,
  end_index: endIndex,
  title,
  url,
});

export const callItem = ({ id, name, args }: Call, status: 'in_progress' | 'completed') => ({
  id: formatCallItemId(id),
  type: 'function_call' as const,
  call_id: id,
  name,
  arguments: status === 'completed' ? args : '',
  status,
});

export const usageBody = (usage: Usage) => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens, cache_write_tokens: usage.cacheWriteTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: usage.inputTokens + usage.outputTokens,
});
