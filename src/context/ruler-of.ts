import { z } from 'zod';
import type { Agent } from '../agents/agent.ts';
import type { ToolDescription } from '../domain/context/measure.ts';
import { findModel, type ModelEntry, UNKNOWN_MODEL } from '../domain/context/model-registry.ts';
import { createRuler, type Ruler } from '../domain/context/ruler.ts';
import { mediaSupportOf } from '../domain/context/shown-media.ts';
import { estimateText, guardCounter, type TokenCounter } from '../domain/context/tokens.ts';
import { workingSet } from '../domain/context/working-set.ts';
import { type Json, jsonSchema, type ViewMessage } from '../domain/message.ts';
import type { ResolvedModel } from '../step/model-port.ts';
import type { Db } from '../store/database.ts';
import { type ModelKey, type RememberedModel, readModel } from '../store/model-limits.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { Tool } from '../tools/tool.ts';

export type RulerDeps = Readonly<{
  db: Db;
  /** What is known of the models, the configuration's own words included. */
  modelRegistry: readonly ModelEntry[];
}>;

/** The ruler of an agent's requests, with what was learned about its model's endpoint: read, where it is not known. */
export async function rulerOf(
  deps: RulerDeps,
  agent: Agent,
  resolved: ResolvedModel,
  tools: readonly Tool[],
  remembered?: RememberedModel,
): Promise<Readonly<{ ruler: Ruler; prior: number | null }>> {
  const entry = findModel(agent.model, deps.modelRegistry) ?? undescribed(resolved);
  const [{ learned, prior }, count] = await Promise.all([
    remembered ?? readModel(deps.db, modelKey(resolved)),
    counterOf(entry),
  ]);
  const ruler = createRuler({
    model: agent.model,
    entry,
    learned,
    prior,
    policy: agent.context,
    instructions: agent.instructions,
    tools: describe(tools),
    count,
    media: mediaSupportOf(resolved.protocol, entry.mediaTypes),
  });
  return { ruler, prior };
}

/**
 * The tools that the agent's model is offered with this view: none where the model cannot call any, and of those that
 * have to be found the ones that the view refers to.
 */
export async function offeredTools(
  deps: Pick<RulerDeps, 'modelRegistry'> & Readonly<{ toolsOf: ToolCatalogue }>,
  agent: Agent,
  resolved: ResolvedModel,
  view: readonly ViewMessage[],
): Promise<readonly Tool[]> {
  const entry = findModel(agent.model, deps.modelRegistry) ?? undescribed(resolved);
  if (!entry.tools) return [];
  const tools = await deps.toolsOf(agent);
  const deferred = tools.filter((tool) => tool.deferred === true);
  if (deferred.length === 0) return tools;
  const found = workingSet(view, new Set(deferred.map(({ name }) => name)));
  return tools.filter((tool) => tool.deferred !== true || found.has(tool.name));
}

/** The simulator stands in for a model of today where nobody says otherwise. */
const SIMULATED_MODEL: ModelEntry = {
  ...UNKNOWN_MODEL,
  contextWindow: 200_000,
  maxOutput: 32_000,
  mediaTypes: ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'],
};

const undescribed = ({ provider }: ResolvedModel): ModelEntry =>
  provider.startsWith('simulated') ? SIMULATED_MODEL : UNKNOWN_MODEL;

/** Under this the endpoint's limits are remembered. */
export function modelKey({ provider, endpoint, modelId }: ResolvedModel): ModelKey {
  return { provider, endpoint, model: modelId };
}

/** The tokenizer's tables take a moment and some memory: they are loaded with the first model that needs them. */
let exactCounter: Promise<TokenCounter> | undefined;

async function counterOf(entry: ModelEntry): Promise<TokenCounter> {
  if (entry.tokenizer === null) return estimateText;
  exactCounter ??= import('gpt-tokenizer/encoding/o200k_base').then(({ countTokens }) =>
    guardCounter((text) => countTokens(text, { disallowedSpecial: new Set() })),
  );
  return exactCounter;
}

const descriptions = new WeakMap<readonly Tool[], readonly Required<ToolDescription>[]>();

/** The same list for the same tools: what is counted of it is counted once. */
function describe(tools: readonly Tool[]): readonly Required<ToolDescription>[] {
  const known = descriptions.get(tools);
  if (known !== undefined) return known;
  const made = tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    inputSchema: schemaOf(tool),
  }));
  descriptions.set(tools, made);
  return made;
}

const schemas = new WeakMap<Tool, Json>();

function schemaOf(tool: Tool): Json {
  const known = schemas.get(tool);
  if (known !== undefined) return known;
  const { inputSchema } = tool;
  const schema = jsonSchema.parse(inputSchema instanceof z.ZodType ? z.toJSONSchema(inputSchema) : inputSchema);
  schemas.set(tool, schema);
  return schema;
}
