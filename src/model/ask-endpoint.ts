import { z } from 'zod';
import type { ServedModel } from '../domain/context/limits/model-entry.ts';
import { patientFetch } from '../platform/patient-fetch.ts';

/** The address of a provider, with the headers of every request to it. */
export type ServingEndpoint = Readonly<{ baseUrl: string; headers: Readonly<Record<string, string>> }>;

/** For all questions about one model together: a step may wait for them. */
const ANSWER_WITHIN_MS = 3_000;
/** Room for a list of many hundred models with their descriptions. */
const MAX_ANSWER_BYTES = 4_194_304;

/** Asks an endpoint about a model that it serves. Null if it does not tell, for any reason: a step works without. */
export async function askEndpoint(
  endpoint: ServingEndpoint,
  modelId: string,
  withinMs = ANSWER_WITHIN_MS,
): Promise<ServedModel | null> {
  const signal = AbortSignal.timeout(withinMs);
  const ask = (question: EndpointQuestion) => answerTo(question, endpoint, modelId, signal);
  const listed = await ask(MODEL_LIST);
  if (listed?.contextWindow !== undefined) return listed;
  const answers = [listed, ...(await Promise.all(OWN_QUESTIONS.map(ask)))].filter((answer) => answer !== null);
  return answers.length === 0 ? null : Object.assign({}, ...answers);
}

async function answerTo(
  { method, base, path, body, read }: EndpointQuestion,
  { baseUrl, headers }: ServingEndpoint,
  modelId: string,
  signal: AbortSignal,
): Promise<ServedModel | null> {
  const root = baseUrl.replace(/\/+$/, '');
  const url = `${base === 'api' ? root : root.replace(/\/v1$/, '')}${path}`;
  try {
    const response = await patientFetch(url, {
      method,
      headers: { ...headers, accept: 'application/json', ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body(modelId)) }),
      // Its headers may hold a key, which is for this address alone.
      redirect: 'error',
      signal,
    });
    const text = await readWithin(response, MAX_ANSWER_BYTES);
    return response.ok ? read(JSON.parse(text), modelId) : null;
  } catch {
    return null;
  }
}

/** @throws RangeError for a longer body */
async function readWithin(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw new RangeError('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A question about a model to servers that speak chat completions. */
type EndpointQuestion = Readonly<{
  servers: string;
  method: 'GET' | 'POST';
  /** Below the base URL, or below that without its last `/v1`. */
  base: 'api' | 'server';
  path: string;
  body?: (modelId: string) => unknown;
  /** Null: the answer has another form, or does not have the model. */
  read: (answer: unknown, modelId: string) => ServedModel | null;
}>;

const IMAGES = ['image/png', 'image/jpeg'];

/** Some servers send numbers as text. Any other value is left out. */
const tokens = z.coerce.number().int().min(256).max(100_000_000).optional().catch(undefined);
const words = z.array(z.string()).optional().catch(undefined);

/** `GET /models` of OpenAI, with the additions of other servers. */
const modelList = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      max_model_len: tokens,
      context_window: tokens,
      context_length: tokens,
      max_context_length: tokens,
      max_completion_tokens: tokens,
      meta: z.object({ n_ctx: tokens, n_ctx_train: tokens }).nullish().catch(undefined),
      top_provider: z.object({ context_length: tokens, max_completion_tokens: tokens }).nullish().catch(undefined),
      architecture: z.object({ input_modalities: words }).nullish().catch(undefined),
    }),
  ),
});

/**
 * vLLM and SGLang: `max_model_len`. Groq: `context_window`. Mistral: `max_context_length`. Together, OpenRouter:
 * `context_length`; OpenRouter also has that of the provider to which it routes. llama.cpp: `meta`.
 */
const readModelList: EndpointQuestion['read'] = (answer, modelId) => {
  const { data = [] } = modelList.safeParse(answer).data ?? {};
  // llama.cpp serves one model and takes any name for it.
  const model = data.find(({ id }) => id === modelId) ?? (data.length === 1 && data[0]?.meta != null ? data[0] : null);
  if (model == null) return null;
  const { top_provider: routed, meta, architecture } = model;
  const contextWindow =
    model.max_model_len ??
    model.context_window ??
    routed?.context_length ??
    model.context_length ??
    model.max_context_length ??
    meta?.n_ctx ??
    meta?.n_ctx_train;
  const modalities = architecture?.input_modalities;
  const mediaTypes = modalities && [
    ...(modalities.includes('image') ? IMAGES : []),
    ...(modalities.includes('file') ? ['application/pdf'] : []),
  ];
  return servedModelOf({
    contextWindow,
    maxOutput: routed?.max_completion_tokens ?? model.max_completion_tokens,
    mediaTypes,
  });
};

const ollamaModel = z.object({
  capabilities: words,
  /** Lines such as `num_ctx 8192`. */
  parameters: z.string().optional().catch(undefined),
  /** Keys such as `llama.context_length`. */
  model_info: z.record(z.string(), z.unknown()).optional().catch(undefined),
});

/** Without `num_ctx` the window is that of the training: the server may keep less of it in memory. */
const readOllamaModel: EndpointQuestion['read'] = (answer) => {
  const { capabilities, parameters = '', model_info: info } = ollamaModel.safeParse(answer).data ?? {};
  if (capabilities === undefined && info === undefined) return null;
  const trained = Object.entries(info ?? {}).find(([key]) => key.endsWith('.context_length'))?.[1];
  const contextWindow = tokens.parse(/^num_ctx\s+(\d+)/m.exec(parameters)?.[1]) ?? tokens.parse(trained);
  return servedModelOf({
    contextWindow,
    ...(capabilities !== undefined && {
      tools: capabilities.includes('tools'),
      mediaTypes: capabilities.includes('vision') ? IMAGES : [],
    }),
  });
};

const ollamaRunning = z.object({ models: z.array(z.object({ model: z.string(), context_length: tokens })) });

const readOllamaRunning: EndpointQuestion['read'] = (answer, modelId) => {
  const { models = [] } = ollamaRunning.safeParse(answer).data ?? {};
  const names = [modelId, `${modelId}:latest`];
  return servedModelOf({ contextWindow: models.find(({ model }) => names.includes(model))?.context_length });
};

const lmStudioModels = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      type: z.string(),
      max_context_length: tokens,
      loaded_context_length: tokens,
    }),
  ),
});

const readLmStudio: EndpointQuestion['read'] = (answer, modelId) => {
  const model = lmStudioModels.safeParse(answer).data?.data.find(({ id }) => id === modelId);
  if (model === undefined) return null;
  const contextWindow = model.loaded_context_length ?? model.max_context_length;
  return servedModelOf({ contextWindow, mediaTypes: model.type === 'vlm' ? IMAGES : [] });
};

/** Asked first: every server has it, and only some tell enough. */
const MODEL_LIST: EndpointQuestion = {
  servers: 'vLLM, SGLang, llama.cpp, OpenRouter, Groq, Mistral, Together',
  method: 'GET',
  base: 'api',
  path: '/models',
  read: readModelList,
};

/** Asked if the list told no window. Later entries override earlier ones, because they tell more of the model. */
const OWN_QUESTIONS: readonly EndpointQuestion[] = [
  {
    servers: 'LM Studio',
    method: 'GET',
    base: 'server',
    path: '/api/v0/models',
    read: readLmStudio,
  },
  {
    servers: 'Ollama',
    method: 'POST',
    base: 'server',
    path: '/api/show',
    body: (model) => ({ model }),
    read: readOllamaModel,
  },
  {
    servers: 'Ollama, of a model in memory',
    method: 'GET',
    base: 'server',
    path: '/api/ps',
    read: readOllamaRunning,
  },
];

type Told = { [Key in keyof ServedModel]: ServedModel[Key] | undefined };

/** Drops undefined values; null: none are left. */
function servedModelOf(model: Told): ServedModel | null {
  const fields = Object.entries(model).filter(([, value]) => value !== undefined);
  return fields.length === 0 ? null : Object.fromEntries(fields);
}
