import { z } from 'zod';
import type { Agent } from '../agents/agent.ts';
import type { ModelEntry } from '../domain/context/limits/model-entry.ts';
import { type ContextMeter, createContextMeter } from '../domain/context/meter/context-meter.ts';
import type { ToolDescription } from '../domain/context/meter/measure.ts';
import { estimateText, guardCounter, type TokenCounter } from '../domain/context/meter/tokens.ts';
import { workingSet } from '../domain/context/prune/working-set.ts';
import { NO_TOOLS_NOTICE } from '../domain/model/model-frames.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import { mediaSupportOf } from '../domain/model/shown-media.ts';
import { type Json, jsonSchema, type ViewMessage } from '../domain/transcript/message.ts';
import { onceForMessage } from '../domain/transcript/once-for-message.ts';
import { READER_TOOL } from '../domain/transcript/refs.ts';
import { adaptModel, omittedFilesOf } from '../model/adapt-model.ts';
import type { DescribeModel } from '../model/describe-model.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { loadOptional } from '../platform/optional-packages.ts';
import type { Db } from '../store/db/database.ts';
import { type ModelKey, type RememberedModel, readModel } from '../store/work/model-limits.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import type { Tool } from '../tools/tool.ts';

export type ContextMeterDeps = Readonly<{
  db: Db;
  describeModel: DescribeModel;
}>;

/** A model with its description and the memory of its endpoint. */
export type KnownModel = Readonly<{
  resolved: ResolvedModel;
  entry: ModelEntry;
  remembered: RememberedModel;
}>;

/**
 * @param remembered read from Postgres if absent
 * @param changes of requests that are tried now, beside the remembered ones
 */
export async function knownModel(
  deps: ContextMeterDeps,
  resolved: ResolvedModel,
  tenantId: string,
  {
    remembered,
    changes = [],
  }: Readonly<{ remembered?: RememberedModel | undefined; changes?: readonly Adaptation[] }> = {},
): Promise<KnownModel> {
  const [entry, taught] = await Promise.all([
    deps.describeModel(resolved),
    remembered ?? readModel(deps.db, modelKey(resolved), tenantId),
  ]);
  return {
    resolved: adaptModel(resolved, [...taught.adaptations, ...changes]),
    entry: taught.refusesTools ? { ...entry, tools: false } : entry,
    remembered: taught,
  };
}

export async function contextMeterOf(
  agent: Agent,
  { resolved, entry, remembered }: KnownModel,
  tools: readonly Tool[],
): Promise<ContextMeter> {
  return createContextMeter({
    model: agent.model,
    entry,
    learned: remembered.learned,
    prior: remembered.prior,
    policy: agent.context,
    instructions: instructionsFor(agent, entry),
    tools: describeTools(tools),
    count: await counterOf(entry),
    media: mediaSupportOf(resolved.protocol, entry.mediaTypes, omittedFilesOf(resolved)),
  });
}

/** Instructions may mention tools, so a model without tools is told that it has none. */
function instructionsFor({ instructions, tools, mcpServers }: Agent, entry: ModelEntry): string {
  const hasTools = tools.length > 0 || Object.keys(mcpServers).length > 0;
  if (entry.tools || !hasTools) return instructions;
  return instructions.trim() === '' ? NO_TOOLS_NOTICE : `${instructions}\n\n${NO_TOOLS_NOTICE}`;
}

/**
 * The tools for a request with this view. Empty if the model cannot call any; of deferred tools only the working set.
 */
export async function offeredTools(
  { toolsOf }: Readonly<{ toolsOf: ToolCatalogue }>,
  agent: Agent,
  { entry }: Pick<KnownModel, 'entry'>,
  view: readonly ViewMessage[],
): Promise<readonly Tool[]> {
  if (!entry.tools) return [];
  const tools = await toolsOf(withReader(agent, view));
  const deferred = tools.filter((tool) => tool.deferred === true);
  if (deferred.length === 0) return tools;
  const found = workingSet(view, new Set(deferred.map(({ name }) => name)));
  return tools.filter((tool) => tool.deferred !== true || found.has(tool.name));
}

/** An agent without tools gets the reader only once its view names an id that can be read. */
function withReader(agent: Agent, view: readonly ViewMessage[]): Agent {
  return view.some(namesIds) ? withReaderAtLeast(agent) : agent;
}

const namesIds = onceForMessage(({ parts }) =>
  parts.some(({ type, marks }) => type === 'compaction' || marks?.mediaStripped === true),
);

/** The agent, with the reader tool if it has no tools. It may have been offered that one. */
export function withReaderAtLeast(agent: Agent): Agent {
  const hasTools = agent.tools.length > 0 || Object.keys(agent.mcpServers).length > 0;
  return hasTools ? agent : { ...agent, tools: [READER_TOOL] };
}

export function modelKey({ provider, endpoint, modelId }: ResolvedModel): ModelKey {
  return { provider, endpoint, model: modelId };
}

const TOKENIZER = { purpose: 'models of OpenAI', packages: ['gpt-tokenizer'] };

/** Loaded with the first model that needs it, because the tokenizer's tables take time and memory. */
let exactCounter: Promise<TokenCounter> | undefined;

async function counterOf(entry: ModelEntry): Promise<TokenCounter> {
  if (entry.tokenizer === null) return estimateText;
  exactCounter ??= loadOptional(TOKENIZER, () => import('gpt-tokenizer/encoding/o200k_base')).then(({ countTokens }) =>
    guardCounter((text) => countTokens(text, { disallowedSpecial: new Set() })),
  );
  return exactCounter;
}

const descriptions = new WeakMap<readonly Tool[], readonly Required<ToolDescription>[]>();

/** Returns the same list for the same tools, so that its tokens are counted once. */
export function describeTools(tools: readonly Tool[]): readonly Required<ToolDescription>[] {
  const cached = descriptions.get(tools);
  if (cached !== undefined) return cached;
  const created = tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    inputSchema: schemaOf(tool),
  }));
  descriptions.set(tools, created);
  return created;
}

const schemas = new WeakMap<Tool, Json>();

function schemaOf(tool: Tool): Json {
  const cached = schemas.get(tool);
  if (cached !== undefined) return cached;
  const { inputSchema } = tool;
  const schema = jsonSchema.parse(inputSchema instanceof z.ZodType ? z.toJSONSchema(inputSchema) : inputSchema);
  schemas.set(tool, schema);
  return schema;
}
