import type { ServedModel } from '../domain/context/limits/model-entry.ts';
import { patientFetch } from '../platform/patient-fetch.ts';
import { type EndpointQuestion, MODEL_LIST, OWN_QUESTIONS } from './endpoint-answers.ts';

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
