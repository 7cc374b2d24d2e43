const CHAT =
  'Baton speaks responses and chat completions: `openai("<agent>")` of the AI SDK, `client.responses.create` and `client.chat.completions.create` of OpenAI’s libraries';
const RESPONSES =
  'Baton has POST /v1/responses, its input_tokens and compact, GET and DELETE /v1/responses/{id}, its input_items and its cancel';
const ELSEWHERE = 'Ask the provider itself for that';

/** OpenAI's routes that Baton does not have, by path prefix, each with Baton's alternative. */
const ABSENT: readonly Readonly<{ path: string; advice: string }>[] = [
  { path: '/v1/responses', advice: RESPONSES },
  {
    path: '/v1/conversations',
    advice: 'A conversation is a session: name any in `conversation` of POST /v1/responses',
  },
  { path: '/v1/completions', advice: CHAT },
  { path: '/v1/assistants', advice: `An assistant is an agent, a thread a session. ${CHAT}` },
  { path: '/v1/threads', advice: `An assistant is an agent, a thread a session. ${CHAT}` },
  { path: '/v1/files', advice: 'Upload a file with POST /v1/blobs, or send it in a message' },
  { path: '/v1/uploads', advice: 'Upload a file with POST /v1/blobs, or send it in a message' },
  { path: '/v1/embeddings', advice: ELSEWHERE },
  { path: '/v1/moderations', advice: ELSEWHERE },
  { path: '/v1/images', advice: ELSEWHERE },
  { path: '/v1/audio', advice: ELSEWHERE },
  { path: '/v1/realtime', advice: ELSEWHERE },
  { path: '/v1/batches', advice: ELSEWHERE },
  { path: '/v1/fine_tuning', advice: ELSEWHERE },
  { path: '/v1/vector_stores', advice: ELSEWHERE },
];

/** Advice for a client that asks for one of these routes; null for any other path. */
export function adviceForAbsent(path: string): string | null {
  return ABSENT.find((route) => path === route.path || path.startsWith(`${route.path}/`))?.advice ?? null;
}
