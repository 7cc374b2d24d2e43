import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { sendJson } from './delivery.ts';
import { readBody } from './exchange.ts';
import { errorBody, faultSchema } from './fault.ts';
import { PROFILE_NAMES } from './profiles.ts';
import type { SimulatorState } from './state.ts';
import { summaryAnswerSchema } from './summarizer.ts';
import { modelWindowSchema } from './window.ts';
import { parseJson } from './wire.ts';

/** Prefix of the endpoints that steer a simulator from another process. */
export const controlPath = '/__simulator/';

const toolCall = z.strictObject({
  id: z.string().optional(),
  name: z.string(),
  /** A string is sent as raw arguments. */
  input: z.union([z.record(z.string(), z.unknown()), z.string()]),
});

const reply = z.strictObject({
  reasoning: z.string().optional(),
  text: z.string().optional(),
  toolCalls: z.array(toolCall).optional(),
  textAfterTools: z.string().optional(),
  finishReason: z.enum(['stop', 'tool-calls', 'length', 'content-filter']).optional(),
  usage: z
    .strictObject({ input: z.number(), cacheRead: z.number(), output: z.number(), reasoning: z.number() })
    .optional(),
  sources: z.array(z.strictObject({ url: z.string(), title: z.string() })).optional(),
  documents: z.array(z.string()).optional(),
  pictures: z.array(z.base64()).optional(),
  chunkChars: z.number().int().positive().optional(),
  chunkDelayMs: z.number().int().min(0).optional(),
  gates: z
    .strictObject({
      beforeFirstChunk: z.string().optional(),
      afterChunks: z.strictObject({ count: z.number().int().min(0), gate: z.string() }).optional(),
      beforeEnd: z.string().optional(),
    })
    .optional(),
});

const commands = {
  script: z.strictObject({ model: z.string(), replies: z.array(reply) }),
  faults: z.strictObject({ model: z.string(), faults: z.array(faultSchema) }),
  release: z.strictObject({ gate: z.string() }),
  window: z.strictObject({
    model: z.string(),
    ...modelWindowSchema.shape,
    tokens: z.number().int().positive().nullish(),
  }),
  profile: z.strictObject({ model: z.string(), name: z.enum(PROFILE_NAMES).nullish() }),
  age: z.strictObject({ ms: z.number().min(0) }),
  summaries: z.strictObject({ answers: z.array(summaryAnswerSchema), afterwards: summaryAnswerSchema.optional() }),
};

/**
 * Serves `GET /__simulator/requests?after=<no>` (the log as JSON), `GET /__simulator/gates`,
 * `GET /__simulator/backgrounds` (responses in the background), and as POST with JSON bodies: `age {ms}` (makes those
 * older), `script {model, replies}`, `faults {model, faults}`, `release {gate}`, `window {model, tokens, maxBytes,
 * overflow}`, `profile {model, name}`, `summaries {answers, afterwards}`, `clear`.
 */
export async function serveControl(
  state: SimulatorState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://simulator');
  const name = url.pathname.slice(controlPath.length);
  if (request.method === 'GET' && name === 'requests') {
    const after = Number(url.searchParams.get('after') ?? -1);
    return sendJson(response, undefined, 200, { requests: state.journal.records.filter(({ no }) => no > after) });
  }
  if (request.method === 'GET' && name === 'gates') {
    return sendJson(response, undefined, 200, { gates: state.gates.states() });
  }
  if (request.method === 'GET' && name === 'backgrounds') {
    return sendJson(response, undefined, 200, { backgrounds: state.backgrounds.records() });
  }
  const run = request.method === 'POST' ? handlers.get(name) : undefined;
  if (run === undefined) return sendJson(response, undefined, 404, errorBody('Unknown control.', 'not_found'));
  try {
    const text = await readBody(request);
    run(state, text === '' ? {} : parseJson(text)?.value);
    sendJson(response, undefined, 200, { ok: true });
  } catch (error) {
    const message = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    sendJson(response, undefined, 400, errorBody(message, 'invalid_request_error'));
  }
}

const handlers = new Map<string, (state: SimulatorState, body: unknown) => void>([
  [
    'script',
    (state, body) => {
      const { model, replies } = commands.script.parse(body);
      state.script(model, replies);
    },
  ],
  [
    'faults',
    (state, body) => {
      const { model, faults } = commands.faults.parse(body);
      state.fault(model, faults);
    },
  ],
  [
    'release',
    (state, body) => {
      state.gates.gate(commands.release.parse(body).gate).release();
    },
  ],
  [
    'window',
    (state, body) => {
      const { model, tokens, ...rules } = commands.window.parse(body);
      const isTakenAway = tokens == null && rules.maxBytes === undefined;
      state.setWindow(model, isTakenAway ? undefined : { ...rules, tokens: tokens ?? undefined });
    },
  ],
  [
    'profile',
    (state, body) => {
      const { model, name } = commands.profile.parse(body);
      state.setProfile(model, name ?? undefined);
    },
  ],
  [
    'summaries',
    (state, body) => {
      const { answers, afterwards } = commands.summaries.parse(body);
      state.summaries(answers, afterwards);
    },
  ],
  ['age', (state, body) => state.backgrounds.age(commands.age.parse(body).ms)],
  ['clear', (state) => state.clear()],
]);
