import { createHash } from 'node:crypto';
import type { LanguageModel } from 'ai';
import { BatonError } from '../domain/errors.ts';
import type { Json } from '../domain/transcript/message.ts';

type ModelV4 = Extract<Exclude<LanguageModel, string>, { specificationVersion: 'v4' }>;
type CallOptions = Parameters<ModelV4['doStream']>[0];
type StreamPart = Awaited<ReturnType<ModelV4['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never;

/** An answer of the simulated model: a text, calls of tools, or the result of a run that is asked for one. */
export type SimulatedReply =
  | string
  | Readonly<{
      text?: string;
      toolCalls?: readonly Readonly<{ tool: string; input?: Json }>[];
      /** Fits the schema of the run's `output`. */
      result?: Json;
    }>;

export type SimulatedRequest = Readonly<{
  /** Number of this answer in the conversation, from 1. */
  no: number;
  /** Text of the newest message of the user. */
  text: string;
  /** Results of the calls since the last answer, as the model reads them. */
  results: readonly Readonly<{ tool: string; output: unknown }>[];
  /** Names of the tools that may be called. */
  tools: readonly string[];
}>;

/** A list is played in the order of a conversation's answers, and begins again at its end. */
export type SimulatedScript =
  | readonly SimulatedReply[]
  | ((request: SimulatedRequest) => SimulatedReply | Promise<SimulatedReply>);

const models = new Map<string, ModelV4>();

/**
 * A model without a provider and a key, for a first program and for tests. What it answers follows from the conversation
 * alone, so a step that is repeated, in this process or another, gets the same answer.
 * @param script absent: it repeats what it was told
 * @param name of the model, as `simulated/<name>`. Default: made from a list; a function is numbered
 * @throws BatonError `config_invalid` for a list without answers, or what is no script
 */
export function simulated(script: SimulatedScript = echo, name: string = nameOf(script)): ModelV4 {
  refuseNoScript(script);
  const cached = models.get(name);
  if (cached !== undefined) return cached;
  const model: ModelV4 = {
    specificationVersion: 'v4',
    provider: 'simulated',
    modelId: name,
    supportedUrls: {},
    async doGenerate(options) {
      const { content, usage, finishReason } = await answer(script, options);
      return { content, usage, finishReason, warnings: [] };
    },
    async doStream(options) {
      const { content, usage, finishReason } = await answer(script, options);
      const parts: StreamPart[] = [
        { type: 'stream-start', warnings: [] },
        ...content.flatMap((item, at): StreamPart[] =>
          item.type === 'text' ? textParts(String(at), item.text) : [item],
        ),
        { type: 'finish', usage, finishReason },
      ];
      return { stream: ReadableStream.from(parts) };
    },
  };
  models.set(name, model);
  return model;
}

/** Programs in JavaScript have no types. @throws BatonError */
function refuseNoScript(script: unknown): void {
  const isScript =
    typeof script === 'function' || (Array.isArray(script) && script.length > 0 && script.every(isReply));
  if (isScript) return;
  const words = "a list of answers, as in simulated(['Hello.']), or a function that returns one";
  throw new BatonError('config_invalid', `simulated expects ${words}`);
}

const isReply = (reply: unknown): boolean => typeof reply === 'string' || (typeof reply === 'object' && reply !== null);

const echo = ({ text, results }: SimulatedRequest): string =>
  results.length === 0
    ? `You said: ${text}`
    : results.map(({ tool, output }) => `${tool} said: ${textOf(output)}`).join('\n');

let functions = 0;

function nameOf(script: SimulatedScript): string {
  if (script === echo) return 'echo';
  if (typeof script === 'function') {
    functions++;
    return `function-${functions}`;
  }
  return createHash('sha256').update(JSON.stringify(script)).digest('hex').slice(0, 8);
}

async function answer(script: SimulatedScript, options: CallOptions) {
  const request = toRequest(options);
  const reply = typeof script === 'function' ? await script(request) : script[(request.no - 1) % script.length];
  const content = toContent(reply ?? '', request);
  const hasCalls = content.some(({ type }) => type === 'tool-call');
  const unified = hasCalls ? ('tool-calls' as const) : ('stop' as const);
  return { content, finishReason: { unified, raw: unified }, usage: usageOf(options.prompt, content) };
}

function toRequest({ prompt, tools = [] }: CallOptions): SimulatedRequest {
  const answered = prompt.findLastIndex(({ role }) => role === 'assistant');
  const results = prompt.slice(answered + 1).flatMap((message) => (message.role === 'tool' ? message.content : []));
  const user = prompt.findLast((message) => message.role === 'user');
  return {
    no: prompt.filter(({ role }) => role === 'assistant').length + 1,
    text: user?.content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n') ?? '',
    results: results.flatMap((part) =>
      part.type === 'tool-result'
        ? [{ tool: part.toolName, output: 'value' in part.output ? part.output.value : part.output.type }]
        : [],
    ),
    tools: tools.map(({ name }) => name),
  };
}

type Content =
  | { type: 'text'; text: string }
  | { type: 'tool-call'; toolCallId: string; toolName: string; input: string };

/** Where the way to a result is a tool, the result is a call of it. */
const RESULT_TOOL = 'final_result';

function toContent(reply: SimulatedReply, { no, tools }: SimulatedRequest): Content[] {
  const { text = '', toolCalls = [], result } = typeof reply === 'string' ? { text: reply } : reply;
  const isByTool = result !== undefined && tools.includes(RESULT_TOOL);
  const calls = isByTool ? [...toolCalls, { tool: RESULT_TOOL, input: result }] : toolCalls;
  const answer = result === undefined || isByTool ? text : JSON.stringify(result);
  return [
    ...(answer === '' ? [] : [{ type: 'text' as const, text: answer }]),
    ...calls.map(({ tool, input = {} }, at) => {
      const toolCallId = `call_${no}_${at + 1}`;
      return { type: 'tool-call' as const, toolCallId, toolName: tool, input: JSON.stringify(input) };
    }),
  ];
}

function textParts(id: string, text: string): StreamPart[] {
  const words = text.match(/\s*\S+\s*$|\s*\S+/g) ?? [text];
  return [
    { type: 'text-start', id },
    ...words.map((delta): StreamPart => ({ type: 'text-delta', id, delta })),
    { type: 'text-end', id },
  ];
}

const CHARS_PER_TOKEN = 4;
const tokensOf = (value: unknown): number => Math.ceil(JSON.stringify(value).length / CHARS_PER_TOKEN);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

function usageOf(prompt: CallOptions['prompt'], content: readonly Content[]) {
  const [input, output] = [tokensOf(prompt), tokensOf(content)];
  return {
    inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: output, text: output, reasoning: 0 },
  };
}
