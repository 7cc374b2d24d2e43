import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { askEndpoint } from '../../src/model/ask-endpoint.ts';
import { createModelBook } from '../../src/model/describe-model.ts';
import { openPriceRegistry } from '../../src/model/price-registry.ts';

type Asked = Readonly<{ line: string; body: string; headers: IncomingMessage['headers'] }>;

/** A server on a free port of this machine, with a record of the requests it received. */
async function serve(listener: RequestListener): Promise<AsyncDisposable & { url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    asked.push({ line: `${request.method} ${request.url}`, body, headers: request.headers });
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, [Symbol.asyncDispose]: close };
}

/** A server with these answers by method and path. Every other request gets status 404. */
const serveAnswers = (answers: Readonly<Record<string, unknown>>) =>
  serve((request, response) => {
    const answer = answers[`${request.method} ${request.url}`];
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? { error: 'not found' }));
  });

const listOf = (...data: unknown[]) => ({ 'GET /v1/models': { object: 'list', data } });
const IMAGES = ['image/png', 'image/jpeg'];

describe('what an endpoint tells of a model', () => {
  test.each<[server: string, answers: Readonly<Record<string, unknown>>, told: object]>([
    ['vLLM', listOf({ id: 'other', max_model_len: 5 }, { id: 'm', max_model_len: 16_384 }), { contextWindow: 16_384 }],
    ['SGLang', listOf({ id: 'm', owned_by: 'sglang', max_model_len: 131_072 }), { contextWindow: 131_072 }],
    [
      'llama.cpp',
      listOf({ id: '/models/gemma.gguf', meta: { n_ctx: 8_192, n_ctx_train: 131_072 } }),
      { contextWindow: 8_192 },
    ],
    ['llama.cpp of old', listOf({ id: 'x.gguf', meta: { n_ctx_train: 4_096 } }), { contextWindow: 4_096 }],
    [
      'Groq',
      listOf({ id: 'm', context_window: 131_072, max_completion_tokens: 65_536 }),
      { contextWindow: 131_072, maxOutput: 65_536 },
    ],
    ['Mistral', listOf({ id: 'm', max_context_length: 32_768 }), { contextWindow: 32_768 }],
    ['Together', { 'GET /v1/models': { data: [{ id: 'm', context_length: 65_536 }] } }, { contextWindow: 65_536 }],
    [
      'OpenRouter',
      listOf({
        id: 'm',
        context_length: 200_000,
        architecture: { input_modalities: ['text', 'image', 'file'] },
        top_provider: { context_length: 131_072, max_completion_tokens: 32_000 },
      }),
      { contextWindow: 131_072, maxOutput: 32_000, mediaTypes: [...IMAGES, 'application/pdf'] },
    ],
    [
      'Ollama',
      {
        ...listOf({ id: 'm', owned_by: 'library' }),
        'POST /api/show': {
          capabilities: ['completion', 'tools', 'vision'],
          parameters: 'temperature    0.7\nnum_ctx                        8192',
          model_info: { 'general.architecture': 'llama', 'llama.context_length': 131_072 },
        },
        'GET /api/ps': { models: [{ model: 'another', context_length: 2_048 }] },
      },
      { contextWindow: 8_192, tools: true, mediaTypes: IMAGES },
    ],
    [
      'Ollama without a window of its own for the model',
      {
        'POST /api/show': { capabilities: ['completion'], model_info: { 'qwen2.context_length': 32_768 } },
        'GET /api/ps': { models: [] },
      },
      { contextWindow: 32_768, tools: false, mediaTypes: [] },
    ],
    [
      'Ollama with the model in memory',
      {
        'POST /api/show': { capabilities: ['tools'], model_info: { 'llama.context_length': 131_072 } },
        'GET /api/ps': { models: [{ model: 'm:latest', context_length: 4_096 }] },
      },
      { contextWindow: 4_096, tools: true, mediaTypes: [] },
    ],
    [
      'LM Studio',
      {
        ...listOf({ id: 'm' }),
        'GET /api/v0/models': { data: [{ id: 'm', type: 'llm', state: 'not-loaded', max_context_length: 32_768 }] },
      },
      { contextWindow: 32_768, mediaTypes: [] },
    ],
    [
      'LM Studio with the model loaded',
      {
        'GET /api/v0/models': {
          data: [{ id: 'm', type: 'vlm', state: 'loaded', max_context_length: 131_072, loaded_context_length: 4_096 }],
        },
      },
      { contextWindow: 4_096, mediaTypes: IMAGES },
    ],
  ])('%s', async (_server, answers, told) => {
    await using server = await serveAnswers(answers);
    expect(await askEndpoint({ baseUrl: `${server.url}/v1`, headers: {} }, 'm')).toEqual(told);
  });

  test.each<[string, RequestListener]>([
    ['has no such model', (_request, response) => response.end('{"data":[{"id":"n","max_model_len":9000}]}')],
    ['tells no number', (_request, response) => response.end('{"data":[{"id":"m","max_model_len":"much"}]}')],
    ['answers with something else', (_request, response) => response.end('<html>')],
    ['answers with an error', (_request, response) => response.writeHead(500).end('{"data":[]}')],
    ['never answers', () => undefined],
    ['never ends its answer', (_request, response) => response.write('{"data":[')],
    ['answers too much', (_request, response) => response.end(`{"data":[{"id":"${'m'.repeat(5_000_000)}"}]}`)],
    ['hangs up', (request) => request.socket.destroy()],
    ['sends elsewhere', (_request, response) => response.writeHead(302, { location: '/there' }).end()],
  ])('is nothing where it %s', async (_what, listener) => {
    await using server = await serve(listener);
    expect(await askEndpoint({ baseUrl: `${server.url}/v1`, headers: {} }, 'm', 300)).toBeNull();
    expect(server.asked.map(({ line }) => line)).not.toContain('GET /there');
  });

  test('is asked with the headers of every request, and below the base URL', async () => {
    await using server = await serveAnswers({});
    const headers = { authorization: 'Bearer sk', 'x-team': 'red' };
    await askEndpoint({ baseUrl: `${server.url}/gateway/v1/`, headers }, 'm');
    expect(server.asked.map(({ line }) => line).toSorted()).toEqual([
      'GET /gateway/api/ps',
      'GET /gateway/api/v0/models',
      'GET /gateway/v1/models',
      'POST /gateway/api/show',
    ]);
    for (const asked of server.asked) expect(asked.headers).toMatchObject(headers);
    expect(server.asked.find(({ body }) => body !== '')?.body).toBe('{"model":"m"}');
  });
});

test('an endpoint is asked once, again after a while, and keeps what it has told while it is away', async () => {
  let at = 0;
  let asked = 0;
  const answers = [{ contextWindow: 8_000 }, null, { contextWindow: 4_000 }];
  const { describeModel } = createModelBook({
    registry: await openPriceRegistry(),
    overrides: [],
    now: () => new Date(at),
  });
  const askServed = async () => answers[asked++] ?? null;
  const windowOf = async () => {
    const model = { provider: 'own', modelId: 'm', protocol: 'openai-compatible', endpoint: 'http://own' } as const;
    return (await describeModel({ ...model, askServed })).contextWindow;
  };
  expect([await windowOf(), await windowOf(), asked]).toEqual([8_000, 8_000, 1]);
  at += 60_000;
  expect([await windowOf(), await windowOf(), asked]).toEqual([8_000, 8_000, 2]);
  at += 600_000;
  expect([await windowOf(), asked]).toEqual([8_000, 3]);
  expect([await windowOf(), asked]).toEqual([4_000, 3]);
});
