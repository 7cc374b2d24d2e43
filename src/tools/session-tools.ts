import { z } from 'zod';
import type { TouchedResource } from '../domain/context/compaction/touched-files.ts';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import { parseInput } from '../platform/parse-input.ts';
import type { Db } from '../store/db/database.ts';
import { listTouchedResources } from '../store/transcript/compactions.ts';
import { largestPage } from './largest-page.ts';
import { createReadToolOutputTool } from './read-tool-output.ts';
import type { ServerTool, ToolContext } from './tool.ts';

/** The tools that read content which the view shows only in part or no longer. Every agent with a tool has them. */
export function createSessionTools(db: Db): ServerTool[] {
  return [createReadToolOutputTool(db), createListTouchedFilesTool(db)];
}

const MAX_LISTED = 500;

const inputSchema = z.strictObject({
  offset: z.int().min(1).optional().describe('First entry, from 1.'),
  edited: z.boolean().optional().describe('Only edited ones.'),
});

/** `list_touched_files`: all files and resources that the session's calls touched. Summaries name only the newest. */
function createListTouchedFilesTool(db: Db): ServerTool {
  return {
    name: 'list_touched_files',
    description: 'Lists the files and resources that were read or edited in this session, the last one first.',
    inputSchema,
    readOnly: true,
    paged: true,
    execute: async (input, context) => {
      const { offset = 1, edited = false } = parseInput(inputSchema, input);
      const sessionId = parseId('session', context.sessionId);
      const touched = sessionId === null ? [] : await listTouchedResources(db, sessionId);
      return pageOf(edited ? touched.filter(({ access }) => access === 'edited') : touched, offset, context);
    },
  };
}

function pageOf(touched: readonly TouchedResource[], offset: number, { isShownWhole }: ToolContext): string {
  if (touched.length === 0) return '[none]';
  if (offset > touched.length) throw new BatonError('invalid_request', `There are only ${touched.length} entries.`);
  return largestPage(Math.min(MAX_LISTED, touched.length - offset + 1), isShownWhole, (length) => {
    const last = offset + length - 1;
    const lines = touched.slice(offset - 1, last).map(({ path, access }) => `${access} ${path}`);
    const more = last < touched.length ? `; go on with offset ${last + 1}` : '';
    return [...lines, `[${offset} to ${last} of ${touched.length}${more}]`].join('\n');
  });
}
