import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type BatonClient,
  BatonError,
  createClient,
  type Message,
  type MessagePage,
  type Run,
} from '@baton-run/server/client';
import { isJson, isOwn, readBody } from '../local-requests.ts';

// A backend that gives an agent work and waits for the result: POST /reviews {"id": "order-7", "text": "…"} →
// {"status", "answer"}. Requests with the same id get the same review, also after a restart of this process.

/** After this time the caller gets 202 and must ask again. */
const LONGEST_WAIT_MS = 25_000;
/** More than the longest message needs. */
const MAX_BODY_BYTES = 2_000_000;

type Review = Readonly<{ status: Run['status']; answer: string | null }>;

/** Returns the review of a text, or its status while it is under way. */
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

/** Returns the agent's last message of a run, however long the transcript is. */
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

type Answer = Readonly<{ status: number; body: object }>;

const refused = (status: number, detail: string): Answer => ({ status, body: { detail } });

/**
 * Reads the request's text and id, or returns the reason for a refusal. Foreign web pages can send requests here, too.
 */
async function readAsked(request: IncomingMessage): Promise<Readonly<{ id: string; text: string }> | Answer> {
  if (!isOwn(request)) return refused(403, 'This is for programs of this machine');
  if (request.url !== '/reviews' || request.method !== 'POST') return refused(404, 'There is POST /reviews alone');
  if (!isJson(request)) return refused(415, 'The body must be application/json');
  const body = await readBody(request, MAX_BODY_BYTES);
  if (body === null) return refused(413, `The body has at most ${MAX_BODY_BYTES} bytes`);
  const { id, text } = parseFields(body.toString());
  if (typeof id === 'string' && typeof text === 'string') return { id, text };
  return refused(400, 'The body needs the texts id and text');
}

function parseFields(text: string): Readonly<{ id?: unknown; text?: unknown }> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Serves reviews until it is disposed. */
export async function startBackend(
  options: Readonly<{ batonUrl: string; apiKey?: string | undefined; agent?: string; port?: number }>,
) {
  const client = createClient({ baseUrl: options.batonUrl, apiKey: options.apiKey });
  const reviewAsked = async (request: IncomingMessage): Promise<Answer> => {
    const asked = await readAsked(request);
    if ('status' in asked) return asked;
    const reviewed = await review(client, options.agent ?? 'workspace', asked);
    return { status: reviewed.answer === null ? 202 : 200, body: reviewed };
  };
  const server = createServer(async (request, response) => {
    const { status, body } = await reviewAsked(request).catch((error: unknown): Answer => {
      if (error instanceof BatonError) return { status: error.status ?? 503, body: { code: error.code } };
      return { status: 503, body: { code: 'unavailable' } };
    });
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
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
