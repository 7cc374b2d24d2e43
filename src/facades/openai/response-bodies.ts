import type { Usage } from '../../domain/usage.ts';
import type { Completion } from './completion-writer.ts';
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
}>;

type Call = Completion['calls'][number];

/** A response before its end. `text`: the part of the answer that is there. */
export function openBody(head: ResponseHead, status: 'queued' | 'in_progress', text = '') {
  const output = text === '' ? [] : [textItem(head, text, [], 'in_progress')];
  return { ...fieldsOf(head), status, error: null, incomplete_details: null, output, output_text: text, usage: null };
}

export function endedBody(head: ResponseHead, completion: Completion) {
  const { text, calls, citations, usage } = completion;
  const { status, reason } = endOf(completion);
  const state = status === 'completed' ? 'completed' : 'incomplete';
  const texts = text === '' ? [] : [textItem(head, text, citations, state)];
  return {
    ...fieldsOf(head),
    status,
    error: completion.error === null ? null : { type: 'server_error', ...completion.error },
    incomplete_details: reason === null ? null : { reason },
    output: [...texts, ...calls.map((call) => callItem(call, 'completed'))],
    output_text: text,
    usage: usageBody(usage),
  };
}

/** Parameters of the request are not stored: a response shows the settings that the agent decides anyway. */
function fieldsOf({ place, sessionId, model }: ResponseHead) {
  return {
    id: formatResponseId(place),
    object: 'response' as const,
    created_at: createdAtOf(place),
    model,
    // A response goes on without its reader, whether it was asked to or not.
    background: true,
    conversation: { id: conversationId(sessionId) },
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: true,
    temperature: null,
    text: { format: { type: 'text' as const } },
    tool_choice: 'auto' as const,
    tools: [],
    top_p: null,
    truncation: 'disabled' as const,
  };
}

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

const usageBody = (usage: Usage) => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: usage.inputTokens + usage.outputTokens,
});
