import { type LanguageModel, wrapLanguageModel } from 'ai';
import { z } from 'zod';
import { type HeardAnswer, isWrittenCall, judgeFinish } from '../../domain/model/finish-words.ts';
import { NO_REQUEST_NAMES } from '../../domain/model/provider-error-rules.ts';
import type { ModelProtocol } from '../../domain/model/shown-media.ts';
import { simpleSchema } from './simple-schema.ts';
import { isChat, noteThoughts, placeThoughts, type StreamPart } from './thoughts.ts';
import { asWritten } from './written-input.ts';
import { withSchemasAsText } from './written-schemas.ts';

type Finished = Extract<StreamPart, { type: 'finish' }>['finishReason'];
type ToolName = Readonly<{ name: string }>;

const MAPPED = ['stop', 'tool-calls', 'length', 'content-filter'] as const;

/** More text than this is an answer, whatever it begins with. */
const MAX_WRITTEN_CALL_CHARS = 20_000;

/**
 * The model, whose answers end in one of two ways: whole, by the protocol's own end and with a finish reason of Baton's,
 * or with an error. The SDK goes on after a piece that it cannot read, and ends an answer whatever was left out.
 */
export function withStrictAnswers(model: LanguageModel, protocol: ModelProtocol): LanguageModel {
  if (typeof model === 'string' || model.specificationVersion !== 'v4') return model;
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      transformParams: async ({ params }) => ({
        ...(isCopied(protocol) ? withSchemasAsText(params) : params),
        prompt: placeThoughts(params.prompt, protocol),
        includeRawChunks: isChat(protocol),
      }),
      async wrapStream({ model: wrapped, params }) {
        const { stream, ...rest } = await askWithTools(wrapped, params);
        const tools = (params.tools ?? []).map(({ name }: ToolName) => name);
        return { ...rest, stream: stream.pipeThrough(noteThoughts(protocol)).pipeThrough(strictly(tools)) };
      },
    },
  });
}

/** The package of these protocols copies schemas. */
const isCopied = (protocol: ModelProtocol): boolean => protocol === 'openai-responses' || protocol === 'openai-chat';

function strictly(tools: readonly string[]): TransformStream<StreamPart, StreamPart> {
  const openInputs = new Set<string>();
  let text = '';
  let calls = 0;
  let areCallsWhole = true;
  let hasFile = false;
  const heard = ({ unified, raw }: Finished): HeardAnswer => ({
    word: raw === undefined || raw.trim() === '' ? null : raw,
    mapped: MAPPED.find((kind) => kind === unified) ?? null,
    hasText: text !== '' || hasFile,
    calls: calls + openInputs.size,
    areCallsWhole: areCallsWhole && openInputs.size === 0,
  });
  return new TransformStream({
    transform(part, controller) {
      const fail = (error: unknown): void => {
        controller.enqueue({ type: 'error', error });
        controller.terminate();
      };
      switch (part.type) {
        case 'error':
          return fail(isMisread(part.error) ? misreadPiece(part.error) : part.error);
        case 'text-delta':
          if (text.length < MAX_WRITTEN_CALL_CHARS) text += part.delta;
          break;
        case 'file':
          hasFile = true;
          break;
        case 'tool-input-start':
          openInputs.add(part.id);
          break;
        case 'tool-call':
          openInputs.delete(part.toolCallId);
          if (part.providerExecuted === true) break;
          calls += 1;
          areCallsWhole &&= isJson(part.input);
          controller.enqueue({ ...part, input: asWritten(part.input) });
          return;
        case 'finish': {
          const end = endOf(part.finishReason, heard(part.finishReason), calls === 0 && isWrittenCall(text, tools));
          if (end instanceof Error) return fail(end);
          controller.enqueue({ ...part, finishReason: end });
          return;
        }
      }
      controller.enqueue(part);
    },
  });
}

function endOf(finished: Finished, heard: HeardAnswer, isWritten: boolean): Finished | Error {
  const { unified, raw } = finished;
  if (unified === 'error' || unified === 'interrupted') return finished;
  const finish = judgeFinish(heard);
  if (finish.kind === 'broken') return new Error(finish.why);
  if (isWritten) return new Error(WRITTEN_CALL);
  // A refusal ends with the word of an answer. The SDK knows it by its field.
  return { unified: unified === 'content-filter' ? unified : finish.reason, raw };
}

const WRITTEN_CALL =
  'the model wrote its call as text, and its server did not read it: let the server parse the calls of this model (vLLM: --enable-auto-tool-choice --tool-call-parser; llama.cpp: --jinja)';

/** The SDK's error quotes the whole piece, which holds no word about the fault. */
function misreadPiece(error: Misread): Error {
  const place = firstIssue(error.cause);
  return new Error(`the answer has a piece that cannot be read${place === null ? '' : ` (${place})`}`, {
    cause: error,
  });
}

type Misread = Readonly<{ name: string; cause?: unknown }>;

const isMisread = (error: unknown): error is Misread =>
  error instanceof Error && error.name === 'AI_TypeValidationError';

const issueSchema = z.looseObject({
  path: z.array(z.union([z.string(), z.number()])),
  message: z.string(),
  errors: z.array(z.array(z.unknown())).optional(),
});

/** The first fault in the first form that a piece may have. */
function firstIssue(cause: unknown): string | null {
  const { data } = z.looseObject({ issues: z.array(z.unknown()).min(1) }).safeParse(cause);
  let issue = issueSchema.safeParse(data?.issues[0]).data;
  const path: (string | number)[] = [];
  for (let depth = 0; issue !== undefined && depth < 5; depth++) {
    path.push(...issue.path);
    const inner = issueSchema.safeParse(issue.errors?.[0]?.[0]).data;
    if (inner === undefined) return `${path.join('.')}: ${issue.message}`;
    issue = inner;
  }
  return null;
}

function isJson(input: string): boolean {
  if (input.trim() === '') return true;
  try {
    JSON.parse(input);
    return true;
  } catch {
    return false;
  }
}

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type Params = Parameters<Model['doStream']>[0];
type Tool = NonNullable<Params['tools']>[number];
type Answer = Awaited<ReturnType<Model['doStream']>>;

/**
 * Asks a model. A provider's package refuses some schemas before it makes a request: such a tool is offered with a wider
 * schema, which the package takes.
 * @throws the package's error with the name of the tool, if that does not help
 */
async function askWithTools(model: Model, params: Params): Promise<Answer> {
  try {
    return await model.doStream(params);
  } catch (error) {
    if (!isOfPackage(error) || params.tools === undefined) throw error;
    const tools: Tool[] = [];
    for (const tool of params.tools) tools.push(await withSchemaThatIsTaken(model, params, tool));
    // The refusal was not one of a tool.
    if (tools.every((tool, index) => tool === params.tools?.[index])) throw error;
    return model.doStream({ ...params, tools });
  }
}

const isOfPackage = (error: unknown): error is Error => error instanceof Error && NO_REQUEST_NAMES.includes(error.name);

async function withSchemaThatIsTaken(model: Model, params: Params, tool: Tool): Promise<Tool> {
  if (tool.type !== 'function' || (await refusalOf(model, params, tool)) === null) return tool;
  const simple = { ...tool, inputSchema: simpleSchema(tool.inputSchema) as typeof tool.inputSchema };
  const refusal = await refusalOf(model, params, simple);
  if (refusal === null) return simple;
  const { name } = refusal;
  throw Object.assign(new Error(`the tool ${tool.name}: ${refusal.message}`, { cause: refusal }), { name });
}

/** Why the package refuses a tool. Null: it takes it. No request is made, because the call is aborted before. */
async function refusalOf(model: Model, params: Params, tool: Tool): Promise<Error | null> {
  const { toolChoice: _, ...rest } = params;
  try {
    await model.doStream({ ...rest, tools: [tool], abortSignal: AbortSignal.abort() });
  } catch (error) {
    return isOfPackage(error) ? error : null;
  }
  return null;
}
