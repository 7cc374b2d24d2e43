import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createModels } from '../../../src/model/providers.ts';
import { toToolPart } from '../../../src/model/response-parts.ts';
import { streamAnswer } from '../../../src/model/stream-answer.ts';
import type { Tool } from '../../../src/tools/tool.ts';

export type Kind = 'openai-compatible' | 'openai-chat' | 'openai' | 'anthropic';

export type Reply = Readonly<{
  status?: number;
  type?: string;
  /** Texts as they are, and objects as events. */
  frames: readonly (string | object)[];
}>;

export type HeardBy = Readonly<{
  text: string;
  calls: readonly Readonly<{ id: string; name: string; input: unknown }>[];
  finishReason: string | null;
  /** Null: the answer is whole. */
  error: unknown;
}>;

const LOOK: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', properties: { at: {} } },
  execute: async () => 'seen',
};

/** A provider on loopback that answers each request with the frames that are set. */
export async function startAnsweringServer() {
  const requests: Record<string, unknown>[] = [];
  let reply: Reply = { frames: [] };
  const server = createServer(async (request, response) => {
    requests.push(JSON.parse(await bodyOf(request)));
    response.writeHead(reply.status ?? 200, { 'content-type': reply.type ?? 'text/event-stream' });
    for (const frame of reply.frames)
      response.write(typeof frame === 'string' ? frame : `data: ${JSON.stringify(frame)}\n\n`);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const baseUrl = `http://127.0.0.1:${port}/v1`;
  const kinds: readonly Kind[] = ['openai-compatible', 'openai-chat', 'openai', 'anthropic'];
  const models = createModels({
    providers: kinds.map((kind) => ({
      name: kind,
      kind,
      baseUrl,
      apiKey: 'k',
      headers: {},
      background: 'never' as const,
    })),
  });
  return {
    requests,
    baseUrl,
    async ask(kind: Kind, next: Reply, inputSchema = LOOK.inputSchema): Promise<HeardBy> {
      reply = next;
      const heard: { text: string; calls: HeardBy['calls'][number][]; finishReason: string | null } = {
        text: '',
        calls: [],
        finishReason: null,
      };
      const { end } = await streamAnswer(
        {
          model: models(`${kind}/m`).model,
          prompt: { messages: [{ role: 'user', content: 'Hi' }] },
          tools: [{ ...LOOK, inputSchema }],
          settings: { maxOutputTokens: 100, providerOptions: {} },
          signal: new AbortController().signal,
        },
        {
          onPart: () => undefined,
          onEnd({ finishReason, content }) {
            heard.finishReason = finishReason;
            for (const part of content) {
              if (part.type === 'text') heard.text += part.text;
              if (part.type === 'tool-call') {
                heard.calls.push({ id: part.toolCallId, name: part.toolName, input: toToolPart(part).input });
              }
            }
          },
        },
      );
      const error = end.kind === 'failed' ? end.error : heard.finishReason === null ? new Error('no end') : null;
      return { ...heard, error };
    },
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const piece of request) body += piece;
  return body;
}
