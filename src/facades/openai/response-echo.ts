import type { ResponseRequest, TextFormat } from '../../api/response-request.ts';

/**
 * The fields of a response that repeat its request. A field that the request leaves out has OpenAI's default, although
 * the agent decides then.
 * @param request null: it is not known any more, because requests are not stored
 */
export function echoOf(request: ResponseRequest | null) {
  return { ...echoedSettings(request), ...echoedTools(request), ...echoedNames(request) };
}

function echoedSettings(request: ResponseRequest | null) {
  return {
    max_output_tokens: request?.max_output_tokens ?? null,
    max_tool_calls: null,
    temperature: request?.temperature ?? 1,
    top_p: request?.top_p ?? 1,
    top_logprobs: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    reasoning: { effort: request?.reasoning?.effort ?? null, summary: request?.reasoning?.summary ?? null },
    text: { format: echoedFormat(request?.text?.format), verbosity: request?.text?.verbosity ?? 'medium' },
    truncation: request?.truncation ?? 'disabled',
    // No other tier is bought for a request.
    service_tier: 'default' as const,
    // The session keeps a response in any case.
    store: true,
    background: request?.background ?? false,
  };
}

function echoedFormat(format: TextFormat | null | undefined) {
  if (format?.type !== 'json_schema') return format ?? { type: 'text' as const };
  return { ...format, description: format.description ?? null, strict: format.strict ?? false };
}

function echoedTools(request: ResponseRequest | null) {
  const tools = (request?.tools ?? []).map(({ type, name, description, parameters, strict }) => ({
    ...{ type, name, description: description ?? null, parameters: parameters ?? null, strict: strict ?? false },
  }));
  return {
    tools,
    tool_choice: request?.tool_choice ?? ('auto' as const),
    parallel_tool_calls: request?.parallel_tool_calls ?? true,
  };
}

function echoedNames(request: ResponseRequest | null) {
  return {
    instructions: request?.instructions ?? null,
    metadata: request?.metadata ?? {},
    previous_response_id: request?.previous_response_id ?? null,
    ...userOf(request),
    safety_identifier: request?.safety_identifier ?? null,
    prompt_cache_key: request?.prompt_cache_key ?? null,
  };
}

/** Left out where it is none: OpenAI's schema has it as a text. */
const userOf = (request: ResponseRequest | null): Readonly<Record<string, string>> =>
  request?.user == null ? {} : { user: request.user };
