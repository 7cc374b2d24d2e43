import type { z } from 'zod';
import { type Agent, agentFileSchema, toAgent } from '../agents/agent.ts';
import { nameProblem, namesOf } from '../agents/agent-names.ts';
import { CODE_PREFIX, type toolSourceSchema } from '../agents/tool-sources.ts';
import type { OutputFormat } from '../client/contract.ts';
import { isStandardSchema, jsonSchemaOf } from '../client/standard-schema.ts';
import { summarizingAgent } from '../domain/context/limits/policy.ts';
import { BatonError } from '../domain/errors.ts';
import { addGiven, type GivenModel, isGivenModel, nameOfModel } from '../model/given-models.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { defineTool } from '../tools/define-tool.ts';
import { isInputSchema } from '../tools/load-module.ts';
import type { ServerTool, Tool } from '../tools/tool.ts';
import type { AgentDefinition, CodeTool } from './agent-definition.ts';

type GivenSource = z.input<typeof toolSourceSchema>;

/** The agents of a program, with the tools and models that they bring along. */
export type DefinedAgents = Readonly<{
  agents: readonly Agent[];
  toolSets: Readonly<Record<string, readonly Tool[]>>;
  models: ReadonlyMap<string, GivenModel>;
}>;

/**
 * Reads the definitions as the files of agents are read.
 * @param named models by `provider/model`
 * @throws BatonError `config_invalid` that names the agent and the key
 */
export function readDefinitions(
  definitions: readonly AgentDefinition[],
  named: Readonly<Record<string, GivenModel>>,
): DefinedAgents {
  const models = new Map<string, GivenModel>();
  for (const [name, model] of Object.entries(named)) addGiven(models, name, model);
  const toolSets: Record<string, readonly Tool[]> = {};
  const agents = definitions.map((definition) => {
    const { model, tools = [], output, ...rest } = definition;
    const { sources, own } = splitTools(definition.name, tools);
    const nameOf = (one: string | GivenModel) =>
      typeof one === 'string' ? one : nameGiven(models, named, one, definition.name);
    for (const each of own) {
      const key = nameOfCode(definition.name, each);
      if (toolSets[key] !== undefined) {
        throw new BatonError('config_invalid', `agent ${definition.name}: there are two tools named ${each.name}`);
      }
      toolSets[key] = [each];
    }
    return readDefinition(definition.name, {
      ...rest,
      ...(output !== undefined && { output: outputOf(definition.name, output) }),
      model: isModelList(model) ? model.map(nameOf) : nameOf(model),
      tools: [...own.map((each) => nameOfCode(definition.name, each)), ...sources],
    });
  });
  refuseUnknownNames(agents);
  return { agents, toolSets, models };
}

/** @throws BatonError `config_invalid` for a schema without a JSON Schema of an object */
function outputOf(agent: string, output: NonNullable<AgentDefinition['output']>): OutputFormat {
  if (!isStandardSchema(output)) return output;
  try {
    return { schema: jsonSchemaOf(output) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new BatonError('config_invalid', `agent ${JSON.stringify(agent)}: output: ${why}`, { cause });
  }
}

const isModelList = (model: AgentDefinition['model']): model is readonly (string | GivenModel)[] =>
  Array.isArray(model);

/** Sessions keep the name with their copy of the agent: a worker without the tool does not take their runs. */
const nameOfCode = (agent: string, { name }: ServerTool): string => `${CODE_PREFIX}${agent}/${name}`;

/** The name that the program has given the model, or that of its provider. */
function nameGiven(
  models: Map<string, GivenModel>,
  named: Readonly<Record<string, GivenModel>>,
  model: GivenModel,
  agent: string,
): string {
  refuseOtherModel(agent, model);
  const ownName = Object.entries(named).find(([, candidate]) => candidate === model)?.[0];
  if (ownName !== undefined) return ownName;
  const name = nameOfModel(model);
  addGiven(models, name, model, agent);
  return name;
}

function readDefinition(name: string, definition: object): Agent {
  const parsed = agentFileSchema.safeParse(definition);
  if (parsed.success) return toAgent(parsed.data);
  const problems = describeProblems(fileProblems(agentFileSchema, parsed.error));
  throw new BatonError('config_invalid', `agent ${JSON.stringify(name)}: ${problems}`, { cause: parsed.error });
}

function splitTools(
  agent: string,
  tools: NonNullable<AgentDefinition['tools']>,
): Readonly<{ sources: readonly GivenSource[]; own: readonly ServerTool[] }> {
  refuseOtherTools(agent, tools);
  if (!isList(tools)) return { sources: [], own: Object.entries(tools).map((entry) => named(agent, ...entry)) };
  const own = tools.filter((each) => typeof each === 'object' && each !== null && 'execute' in each);
  for (const tool of own) refuseOtherSchema(agent, tool.name, tool);
  return { sources: tools.filter((each) => !own.includes(each as ServerTool)) as GivenSource[], own };
}

const isList = (tools: NonNullable<AgentDefinition['tools']>): tools is readonly (ServerTool | GivenSource)[] =>
  Array.isArray(tools);

function named(agent: string, name: string, definition: CodeTool): ServerTool {
  const refuse = (key: string, words: string): never => {
    throw new BatonError('config_invalid', `agent ${JSON.stringify(agent)}: tools.${name}${key}: expected ${words}`);
  };
  if (typeof definition !== 'object' || definition === null) {
    return refuse('', 'a tool, as in { description, inputSchema, execute }');
  }
  refuseOtherSchema(agent, name, definition);
  if (typeof definition.execute !== 'function') return refuse('.execute', 'a function');
  return defineTool({ ...definition, name } as Parameters<typeof defineTool>[0]);
}

/** @throws BatonError */
function refuseOtherTools(agent: string, tools: unknown): void {
  if (typeof tools === 'object' && tools !== null) return;
  const words = 'expected an object with the tools by their names, or a list';
  throw new BatonError('config_invalid', `agent ${JSON.stringify(agent)}: tools: ${words}`);
}

/** Programs without types, and examples for other libraries, leave it out or name it otherwise. @throws BatonError */
function refuseOtherSchema(agent: string, name: string, definition: Readonly<{ inputSchema?: unknown }>): void {
  if (isInputSchema(definition.inputSchema)) return;
  const isOld = definition.inputSchema === undefined && 'parameters' in definition;
  const advice = isOld ? '; tools of AI SDK 4 call it `parameters`: rename it' : '';
  throw new BatonError(
    'config_invalid',
    `agent ${JSON.stringify(agent)}: tools.${name}.inputSchema: expected a schema of zod 4 or a JSON Schema of an object${advice}`,
  );
}

/** A program without types leaves it out, or gives a provider in place of its model. @throws BatonError */
function refuseOtherModel(agent: string, model: unknown): void {
  if (isGivenModel(model)) return;
  throw new BatonError(
    'config_invalid',
    `agent ${JSON.stringify(agent)}: model: expected a name such as openai/gpt-5.4, or a model of the AI SDK such as openai('gpt-5.4')`,
  );
}

function refuseUnknownNames(agents: readonly Agent[]): void {
  const taken = new Set<string>();
  for (const agent of agents) {
    const problem = nameProblem(agent, taken);
    if (problem !== null)
      throw new BatonError('config_invalid', `agent ${agent.name}: ${problem.key}: ${problem.message}`);
    for (const name of namesOf(agent)) taken.add(name);
  }
  const names = new Set(agents.map(({ name }) => name));
  for (const { name, context } of agents) {
    const summarizer = summarizingAgent(context);
    if (summarizer === null || names.has(summarizer)) continue;
    const toolNames = [...names].sort().join(', ');
    const detail = `agent ${name}: context.compaction.model: no agent is named ${summarizer}; known: ${toolNames}`;
    throw new BatonError('config_invalid', detail);
  }
}
