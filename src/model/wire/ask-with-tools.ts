import type { LanguageModel } from 'ai';
import { NO_REQUEST_NAMES } from '../../domain/model/provider-error-rules.ts';
import { simpleSchema } from './simple-schema.ts';

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type Params = Parameters<Model['doStream']>[0];
type Tool = NonNullable<Params['tools']>[number];
type Answer = Awaited<ReturnType<Model['doStream']>>;

/**
 * Asks a model. A provider's package refuses some schemas before it makes a request: such a tool is offered with a wider
 * schema, which the package takes.
 * @throws the package's error with the name of the tool, if that does not help
 */
export async function askWithTools(model: Model, params: Params): Promise<Answer> {
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
