import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse as parseYaml } from 'yaml';
import type { z } from 'zod';
import { summarizingAgent } from '../domain/context/policy.ts';
import { BatonError } from '../domain/errors.ts';
import { type Agent, type AgentCatalogue, agentFileSchema } from './agent.ts';

/**
 * Reads every `*.yaml` file of a folder as an agent.
 * @param model takes the place of every agent's model, where given
 * @throws BatonError `config_invalid` that names the file and the key
 */
export function loadAgents(folder: string, model?: string): AgentCatalogue {
  const read = agentFiles(folder).map((file) => ({ file, agent: readAgent(path.join(folder, file)) }));
  const names = new Set<string>();
  for (const { file, agent } of read) {
    if (names.has(agent.name)) {
      throw new BatonError('config_invalid', `${file}: name: there is another agent named ${agent.name}`);
    }
    names.add(agent.name);
  }
  for (const { file, agent } of read) checkSummarizer(file, agent, names);
  return createCatalogue(read.map(({ agent }) => (model === undefined ? agent : { ...agent, model })));
}

function checkSummarizer(file: string, { context }: Agent, names: ReadonlySet<string>): void {
  const name = summarizingAgent(context);
  if (name === null || names.has(name)) return;
  const what = `no agent is named ${name}; known: ${[...names].sort().join(', ')}`;
  throw new BatonError('config_invalid', `${file}: context.compaction.model: ${what}`);
}

/** A catalogue of the given agents. */
export function createCatalogue(agents: readonly Agent[]): AgentCatalogue {
  const byName = new Map(agents.map((agent) => [agent.name, agent]));
  const names = [...byName.keys()].sort();
  return {
    names: () => names,
    get(name) {
      const agent = byName.get(name);
      if (agent !== undefined) return agent;
      throw new BatonError('agent_not_found', `there is no agent ${JSON.stringify(name)}; known: ${names.join(', ')}`);
    },
  };
}

function agentFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => /\.ya?ml$/.test(name))
      .sort();
  } catch (error) {
    throw new BatonError('config_invalid', `the agents' folder ${folder} cannot be read`, { cause: error });
  }
}

function readAgent(file: string): Agent {
  let content: unknown;
  try {
    content = parseYaml(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new BatonError('config_invalid', `${file}: not valid YAML`, { cause: error });
  }
  const parsed = agentFileSchema.safeParse(content);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => problemOf(issue));
  throw new BatonError('config_invalid', `${file}: ${problems.join('; ')}`, { cause: parsed.error });
}

/** Key and message. Of a key that may be several things, what is wrong with the one that came closest. */
function problemOf(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): string {
  const path = [...above, ...issue.path];
  const closest = issue.code === 'invalid_union' ? issue.errors.flat().toSorted(byDepth)[0] : undefined;
  if (closest !== undefined && closest.path.length > 0) return problemOf(closest, path);
  return `${path.join('.') || '(root)'}: ${issue.message}`;
}

const byDepth = (a: z.core.$ZodIssue, b: z.core.$ZodIssue): number => b.path.length - a.path.length;
