import { z } from 'zod';
import { SEARCH_TOOLS } from '../domain/context/prune/working-set.ts';
import { defineTool } from './define-tool.ts';
import type { ServerTool, Tool } from './tool.ts';

const DEFAULT_FOUND = 5;
const MAX_FOUND = 20;
/** Of those that were not looked for, as many are named. */
const MAX_NAMED = 100;
const NAME_WEIGHT = 3;

type Described = Pick<Tool, 'name' | 'description'>;

/** `search_tools`: finds tools that the model is not offered yet. What is found can be called from the next step on. */
export function createSearchTools(tools: readonly Described[]): ServerTool {
  return defineTool({
    name: SEARCH_TOOLS,
    description: `Finds more tools by what they do (there are ${tools.length}). Those found can be called afterwards.`,
    inputSchema: z.strictObject({
      query: z.string().min(1).max(500).describe('Words for what is to be done.'),
      limit: z.int().min(1).max(MAX_FOUND).optional().describe('Most tools to find.'),
    }),
    readOnly: true,
    execute: ({ query, limit = DEFAULT_FOUND }) => {
      const found = findTools(tools, query, limit);
      if (found.length > 0) return { tools: found.map(({ name, description }) => ({ name, description })) };
      return `No tool was found. There are:\n${tools.slice(0, MAX_NAMED).map(nameWithSpace).join('\n')}`;
    },
  });
}

/** A name that is only named does not count as found: see `workingSet`. */
const nameWithSpace = ({ name }: Described): string => name.replaceAll('_', ' ');

/**
 * The tools in whose names and descriptions most of the query's words are, at most `limit`, the best first. Words of
 * one or two characters do not count: they are in anything. Pure.
 */
export function findTools<T extends Described>(tools: readonly T[], query: string, limit: number): T[] {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])];
  const scoreOf = ({ name, description }: T): number => {
    const [inName, inDescription] = [name.toLowerCase(), description.toLowerCase()];
    return words.reduce(
      (sum, word) => sum + (inName.includes(word) ? NAME_WEIGHT : 0) + (inDescription.includes(word) ? 1 : 0),
      0,
    );
  };
  const scored = tools.map((tool) => ({ tool, score: scoreOf(tool) })).filter(({ score }) => score > 0);
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ tool }) => tool);
}
