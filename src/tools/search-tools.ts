import { z } from 'zod';
import { SEARCH_TOOLS } from '../domain/context/prune/working-set.ts';
import { defineTool } from './define-tool.ts';
import type { ServerTool, Tool } from './tool.ts';

const DEFAULT_FOUND = 5;
const MAX_FOUND = 20;
/** Limit of the tool names in an answer without a match. */
const MAX_NAMED = 100;
const NAME_WEIGHT = 3;

type Described = Pick<Tool, 'name' | 'description'>;

/** `search_tools`: finds deferred tools. The model can call them from the next step on. */
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

/** A listed name must not count as found, so it is altered: see `workingSet`. */
const nameWithSpace = ({ name }: Described): string => name.replaceAll('_', ' ');

/**
 * The tools whose names and descriptions contain most of the query's words, at most `limit`, the best first. Words of
 * one or two characters are ignored: they occur in any text. Pure.
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
