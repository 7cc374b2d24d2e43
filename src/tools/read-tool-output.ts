import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { parseId } from '../domain/ids.ts';
import { isTextFile } from '../domain/model/model-files.ts';
import { parseRef, READER_TOOL } from '../domain/transcript/refs.ts';
import { parseInput } from '../platform/parse-input.ts';
import type { Db } from '../store/db/database.ts';
import {
  type AttachedContent,
  listUserMessages,
  readAttachedFile,
  readMessageText,
  readToolOutput,
} from '../store/transcript/earlier-content.ts';
import { largestPage } from './largest-page.ts';
import { foldRows, type OutputRows, type OutputSearch } from './output-rows.ts';
import { runInThread, threadModule } from './run-in-thread.ts';
import type { ServerTool, ToolContext } from './tool.ts';

const MAX_PAGE_ROWS = 2_000;
const DEFAULT_MATCHES = 50;
/** Rows shown before and after a match. */
const CONTEXT_ROWS = 2;
/** Includes the start of the thread. */
const SEARCH_TIMEOUT_MS = 5_000;
const SEARCH_THREAD = threadModule(new URL('./output-search-thread.ts', import.meta.url));

const inputSchema = z.strictObject({
  id: z.string().describe('out_…, msg_… or file_…, from a notice; user_messages lists all that the user said.'),
  offset: z.int().min(1).optional().describe('First line, from 1.'),
  limit: z.int().min(1).max(MAX_PAGE_ROWS).optional().describe('Lines, or matches.'),
  search: z.string().min(1).max(1_000).optional().describe('Text or regular expression to find, in any case.'),
});
type Input = z.output<typeof inputSchema>;

/**
 * `read_tool_output`: pages through content of the session that the view shows only in part or not at all: tool
 * outputs, messages, and the user's files (shown again if they are not text). The description is short because every
 * request carries it.
 */
export function createReadToolOutputTool(db: Db): ServerTool {
  return {
    name: READER_TOOL,
    description:
      'Reads what was cut or cleared by its id: an earlier tool output, message or attached file; by lines, or only those where something is found.',
    inputSchema,
    readOnly: true,
    paged: true,
    execute: async (input, context) => {
      const request = parseInput(inputSchema, input);
      const content = await contentOf(db, context, request.id);
      if (typeof content !== 'string') return content;
      if (content === '') return '[empty]';
      const rows = foldRows(content);
      const { offset = 1 } = request;
      if (offset > rows.count) throw new BatonError('invalid_request', `There are only ${rows.count} lines.`);
      return request.search === undefined
        ? pageOf(rows, offset, request, context)
        : matchesOf(rows, await found(content, request, context), request, context);
    },
  };
}

/** A text, or a file in the AI SDK's form. */
type Content = string | Readonly<{ type: 'content'; value: readonly unknown[] }>;

async function contentOf(db: Db, context: ToolContext, id: string): Promise<Content> {
  const ref = parseRef(id);
  const sessionId = parseId('session', context.sessionId);
  const missing = new BatonError('not_found', `This session has nothing under the id ${JSON.stringify(id)}.`);
  if (ref === null || sessionId === null) throw missing;
  if (ref.kind === 'list') return listUserMessages(db, sessionId);
  if (ref.kind === 'output') return outputOf(db, sessionId, { place: ref, id, missing });
  if (ref.kind === 'file') {
    const attached = await readAttachedFile(db, sessionId, ref);
    if (attached === null) throw missing;
    return fileContent(attached);
  }
  const text = await readMessageText(db, sessionId, ref.messageSeq);
  if (text === null) throw missing;
  return text;
}

async function outputOf(
  db: Db,
  sessionId: string,
  { place, id, missing }: Readonly<{ place: Parameters<typeof readToolOutput>[2]; id: string; missing: BatonError }>,
): Promise<string> {
  const stored = await readToolOutput(db, sessionId, place);
  if (stored.kind === 'found') return stored.text;
  if (stored.kind === 'missing') throw missing;
  throw new BatonError('conflict', `The call ${id} (${stored.toolName}) has no output yet.`);
}

/** A text file as text; any other file as a file part, for models that can be shown it. */
function fileContent({ file, bytes }: AttachedContent): Content {
  const { mediaType, filename, url } = file;
  if (bytes !== null && isTextFile(mediaType)) return bytes.toString('utf8');
  const data = bytes === null ? { type: 'url', url } : { type: 'data', data: bytes };
  const value = { type: 'file', mediaType, ...(filename !== undefined && { filename }), data };
  return {
    type: 'content',
    value: [{ type: 'text', text: `The attached file ${filename ?? 'without a name'}:` }, value],
  };
}

/** The rows from the offset on, up to the limit and as many as fit. */
function pageOf(rows: OutputRows, offset: number, { limit = MAX_PAGE_ROWS }: Input, context: ToolContext): string {
  return largestPage(Math.min(limit, rows.count - offset + 1), context.isShownWhole, (length) => {
    const last = offset + length - 1;
    const lines = Array.from({ length }, (_, index) => rows.show(offset + index));
    const more = last < rows.count ? `; go on with offset ${last + 1}` : '';
    return [...lines, `[lines ${offset} to ${last} of ${rows.count}${more}]`].join('\n');
  });
}

/** The matching rows; one more than the limit if there are more. */
async function found(text: string, input: Input, context: ToolContext): Promise<number[]> {
  const { search = '', offset = 1, limit = DEFAULT_MATCHES } = input;
  const request: OutputSearch = { text, search, fromRow: offset, maxRows: limit + 1 };
  try {
    return await runInThread<number[]>(SEARCH_THREAD, request, SEARCH_TIMEOUT_MS, context.signal);
  } catch (error) {
    if (!(error instanceof BatonError) || error.code !== 'timeout') throw error;
    const message = 'The search took too long: search for plain text, or for a simpler expression.';
    throw new BatonError('timeout', message, { cause: error });
  }
}

function matchesOf(rows: OutputRows, matches: readonly number[], input: Input, context: ToolContext): string {
  const { offset = 1, limit = DEFAULT_MATCHES } = input;
  if (matches.length === 0) return `[no match in lines ${offset} to ${rows.count}]`;
  return largestPage(Math.min(limit, matches.length), context.isShownWhole, (length) => {
    const next = matches[length];
    const more = next === undefined ? '' : `; more from offset ${next} on`;
    const page = matches.slice(0, length);
    return [...withContext(rows, page), `[${length} matches of ${rows.count} lines${more}]`].join('\n');
  });
}

/** The matching rows (`>`) and those around them. A line of dashes stands for omitted rows. */
function withContext(rows: OutputRows, matches: readonly number[]): string[] {
  const lines: string[] = [];
  const matching = new Set(matches);
  let shownTo = 0;
  for (const match of matches) {
    const from = Math.max(shownTo + 1, match - CONTEXT_ROWS);
    if (shownTo > 0 && from > shownTo + 1) lines.push('--');
    shownTo = Math.min(rows.count, match + CONTEXT_ROWS);
    for (let row = from; row <= shownTo; row++) lines.push(`${matching.has(row) ? '>' : ' '}${rows.show(row)}`);
  }
  return lines;
}
