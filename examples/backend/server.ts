import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { type BatonClient, BatonError, createClient, type Message, type MessagePage, type Run } from 'baton/client';

// A backend that gives an agent work and waits for it: POST /reviews {"id": "order-7", "text": "…"} → {"status",
// "answer"}. The caller's id makes it one review, however often it asks, and over restarts of this process.

/** How long a caller is kept waiting before it is told to ask again. */
const LONGEST_WAIT_MS = 25_000;

type Review = Readonly<{ status: Run['status']; answer: string | null }>;

/** The review of a text, or how far it is. */
async function review(client: BatonClient, agent: string, { id, text }: { id: string; text: string }): Promise<Review> {
  const session = await client.sessions.create(
    { agent, title: `Review ${id}`, metadata: { review: id } },
    { idempotencyKey: `review-${id}` },
  );
  const { runId } = await client.send(session.id, `Review this:\n\n${text}`, { idempotencyKey: `review-${id}` });
  const run = await client.runs.wait(runId, { timeoutMs: LONGEST_WAIT_MS });
  if (run.status !== 'completed') return { status: run.status, answer: null };
  return { status: run.status, answer: textOf(await lastMessageOf(client, run)) };
}

/** The last thing that the agent said in a run, however long the transcript is. */
async function lastMessageOf(client: BatonClient, { id, sessionId }: Run): Promise<Message | undefined> {
  let last: Message | undefined;
  for (let after: number | null = 0; after !== null; ) {
    const page: MessagePage = await client.messages(sessionId, { after, limit: 200 });
    last = page.messages.findLast(({ role, runId }) => role === 'assistant' && runId === id) ?? last;
    after = page.next;
  }
  return last;
}

const textOf = (message: Message | undefined): string =>
  (message?.parts ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');

/** Serves reviews until it is disposed. */
export async function startBackend(
  options: Readonly<{ batonUrl: string; apiKey?: string | undefined; agent?: string; port?: number }>,
) {
  const client = createClient({ baseUrl: options.batonUrl, apiKey: options.apiKey });
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    try {
      const { id, text } = Object(await json(request));
      if (request.url !== '/reviews' || typeof id !== 'string' || typeof text !== 'string') return answer(400, {});
      const reviewed = await review(client, options.agent ?? 'workspace', { id, text });
      answer(reviewed.answer === null ? 202 : 200, reviewed);
    } catch (error) {
      if (error instanceof BatonError) answer(error.status ?? 503, { code: error.code });
      else answer(400, {});
    }
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

if (import.meta.main) {
  const { BATON_URL, BATON_API_KEY, PORT } = process.env;
  const batonUrl = BATON_URL ?? 'http://127.0.0.1:4400';
  const { url } = await startBackend({ batonUrl, apiKey: BATON_API_KEY, port: Number(PORT ?? 4411) });
  process.stdout.write(`Reviews are at ${url}/reviews\n`);
}
