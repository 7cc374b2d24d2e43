import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Registry } from 'prom-client';
import { z } from 'zod';
import { type AgentSet, agentSchema } from '../../src/agents/agent.ts';
import { GROUPS } from '../../src/cli/command-line.ts';
import { toolsOfAgents } from '../../src/facades/mcp/agent-tools.ts';
import { configSchema } from '../../src/platform/settings.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createToolCatalogue } from '../../src/tools/catalogue.ts';
import { createChildTools } from '../../src/tools/child-tools.ts';
import { withResultTool } from '../../src/tools/result-tool.ts';
import { createSearchTools } from '../../src/tools/search-tools.ts';
import { createSessionTools } from '../../src/tools/session-tools.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { ROOT } from '../support/pasted.ts';
import type { PublishedText } from './wording.ts';

/** The descriptions and summaries anywhere in a document of OpenAPI or JSON Schema. */
export function textsOfDocument(document: unknown, place = ''): PublishedText[] {
  if (Array.isArray(document)) return document.flatMap((item, index) => textsOfDocument(item, `${place}/${index}`));
  if (typeof document !== 'object' || document === null) return [];
  return Object.entries(document).flatMap(([key, value]) => {
    const isText = typeof value === 'string' && (key === 'description' || key === 'summary');
    return isText ? [{ place: `${place}/${key}`, text: value }] : textsOfDocument(value, `${place}/${key}`);
  });
}

export const textsOfSettings = (): PublishedText[] =>
  Object.entries(configSchema.shape).map(([name, schema]) => ({
    place: `setting ${name}`,
    text: schema.meta()?.description ?? '',
  }));

/** Summaries, and of each command's help the paragraphs and the meanings of the options. */
export async function textsOfCommands(): Promise<PublishedText[]> {
  const commands = Object.values(GROUPS).flatMap((group) => Object.entries(group));
  const texts = commands.map(async ([name, { summary, load }]) => {
    const { usage } = await load();
    const [, ...paragraphs] = usage.split('\n\n');
    return [summary, ...paragraphs.flatMap(sentencesOf)].map((text) => ({ place: `baton ${name} --help`, text }));
  });
  return (await Promise.all(texts)).flat();
}

/** A paragraph is one text, a list of options one text an option. */
const sentencesOf = (paragraph: string): string[] =>
  paragraph.startsWith('  ')
    ? [...paragraph.matchAll(/^ {2}\S.*? {2,}(\S.*)$/gm)].map(([, meaning = '']) => meaning)
    : [paragraph];

export async function textsOfMetrics(registries: readonly Registry[]): Promise<PublishedText[]> {
  const metrics = (await Promise.all(registries.map((registry) => registry.getMetricsAsJSON()))).flat();
  return metrics.map(({ name, help }) => ({ place: `metric ${name}`, text: help }));
}

/** Gives tasks in both ways. */
const LEAD = agentSchema.parse({
  name: 'lead',
  model: 'simulated/lead',
  tools: [{ agent: 'helper' }, { agent: 'clerk', mode: 'background' }],
});

/** What a model reads of Baton's own tools, and of the agents as tools of MCP. */
export async function textsOfTools(db: Db, agents: AgentSet): Promise<PublishedText[]> {
  const tools = [
    ...createWorkspaceTools({ root: '/' }),
    ...createSessionTools(db),
    ...createChildTools(db),
    ...withResultTool([], { schema: { type: 'object' } }),
    createSearchTools([]),
    ...(await createToolCatalogue({ sets: {} })(LEAD)),
    ...toolsOfAgents(agents),
  ];
  return tools.flatMap(({ name, description = '', inputSchema }) => {
    const schema = inputSchema instanceof z.ZodType ? z.toJSONSchema(inputSchema, { io: 'input' }) : inputSchema;
    return textsOfDocument({ description, schema }, `tool ${name}`);
  });
}

/** Titles, labels and hints of the console, and the beginnings of its paragraphs and headings. */
export async function textsOfConsole(): Promise<PublishedText[]> {
  const folder = path.join(ROOT, 'console/src');
  const files = (await readdir(folder, { recursive: true })).filter((name) => /\.tsx?$/.test(name));
  const texts = files.map(async (file) => {
    const source = await readFile(path.join(folder, file), 'utf8');
    return [...source.matchAll(ATTRIBUTE), ...source.matchAll(PARAGRAPH)].map(([, text = '']) => ({
      place: `console/src/${file}`,
      text,
    }));
  });
  return (await Promise.all(texts)).flat();
}

const ATTRIBUTE = /\b(?:title|label|hint|placeholder|words|none|empty|act|aria-label)(?:=|: )\{?["'`]([^"'`]+)/g;
const PARAGRAPH = /<(?:p|h\d|legend|summary)\b[^>]*>\s*([A-Z][^<{]*)/g;
