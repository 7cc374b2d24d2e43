import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { basename, matchesGlob } from 'node:path';
import { DisposableStack } from '../../platform/disposable-stacks.ts';
import { looksBinary } from './binary.ts';
import { createFolderCursor, type FolderCursor, walk } from './walk.ts';
import { READ_FLAGS, statInWorkspace } from './workspace-folder.ts';
import { displayPath, relativeToRoot } from './workspace-path.ts';

/** One search. Plain data, because it is sent to another thread. */
export type GrepRequest = Readonly<{
  root: string;
  /** File or directory to search, without symbolic links. */
  start: string;
  pattern: string;
  ignoreCase: boolean;
  glob?: string;
  maxMatches: number;
  maxLineChars: number;
  maxFileBytes: number;
}>;

/** One line per match, and counts of the omitted files. */
export type GrepOutcome = Readonly<{ lines: readonly string[]; stopped: boolean; tooLarge: number; skipped: number }>;

/** Characters shown before a match whose line is cut. */
const CONTEXT_CHARS = 80;

/**
 * Searches files line by line. A pattern can take forever, so this runs in a thread that can be ended.
 * @throws a system error if `start` cannot be read
 */
export async function grepSearch(request: GrepRequest): Promise<GrepOutcome> {
  const expression = new RegExp(request.pattern, request.ignoreCase ? 'i' : '');
  const lines: string[] = [];
  let tooLarge = 0;
  let skipped = 0;
  await using cursor = createFolderCursor(request.root);
  for await (const { real, notEntered } of candidates(request)) {
    if (notEntered !== undefined) skipped += 1;
    else {
      const content = await readText(cursor, real, request.maxFileBytes);
      if (content === 'too-large') tooLarge += 1;
      else if (content !== undefined && searchFile({ text: content.text, real }, expression, request, lines)) {
        return { lines: lines.slice(0, request.maxMatches), stopped: true, tooLarge, skipped };
      }
    }
  }
  return { lines, stopped: false, tooLarge, skipped };
}

type Candidate = Readonly<{ real: string; notEntered?: 'skipped' | 'unreadable' }>;

async function* candidates({ root, start, glob }: GrepRequest): AsyncGenerator<Candidate, void, undefined> {
  if (!(await statInWorkspace({ root, real: start })).isDirectory()) return yield { real: start };
  for await (const entry of walk({ root, real: start }, { recursive: true })) {
    if (entry.notEntered !== undefined) yield entry;
    else if (entry.kind === 'file' && (glob === undefined || matches(entry.real, root, start, glob))) yield entry;
  }
}

/** As in ripgrep: a glob without a slash matches names, one with a slash paths from the start or the root. */
function matches(real: string, root: string, start: string, glob: string): boolean {
  if (!glob.includes('/')) return matchesGlob(basename(real), glob);
  return matchesGlob(relativeToRoot(start, real), glob) || matchesGlob(relativeToRoot(root, real), glob);
}

async function readText(
  cursor: FolderCursor,
  real: string,
  maxBytes: number,
): Promise<Readonly<{ text: string }> | 'too-large' | undefined> {
  using cleanup = new DisposableStack();
  try {
    const folder = await cursor.folderOf(real);
    const descriptor = openSync(folder.pathOf(basename(real)), READ_FLAGS);
    cleanup.defer(() => closeSync(descriptor));
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return undefined;
    if (stats.size > maxBytes) return 'too-large';
    const bytes = readFileSync(descriptor);
    return looksBinary(bytes) ? undefined : { text: bytes.toString() };
  } catch {
    // Removed or unreadable since the walk: one file must not end the search.
    return undefined;
  }
}

/** Adds a file's matches to `lines`. True: there are more than the limit. */
function searchFile(
  { text, real }: Readonly<{ text: string; real: string }>,
  expression: RegExp,
  { root, maxMatches, maxLineChars }: GrepRequest,
  lines: string[],
): boolean {
  const display = displayPath(relativeToRoot(root, real));
  let lineNumber = 0;
  let from = 0;
  while (from < text.length) {
    const lineBreak = text.indexOf('\n', from);
    const end = lineBreak === -1 ? text.length : lineBreak;
    const line = text.slice(from, text[end - 1] === '\r' && end > from ? end - 1 : end);
    lineNumber += 1;
    const found = expression.exec(line);
    if (found !== null) {
      if (lines.length === maxMatches) return true;
      lines.push(`${display}:${lineNumber}: ${excerpt(line, found.index, maxLineChars)}`);
    }
    from = end + 1;
  }
  return false;
}

function excerpt(line: string, matchAt: number, maxChars: number): string {
  if (line.length <= maxChars) return line;
  const start = Math.max(0, Math.min(matchAt - CONTEXT_CHARS, line.length - maxChars));
  const end = start + maxChars;
  const before = start > 0 ? `[${start} characters cut] ` : '';
  const after = end < line.length ? ` [${line.length - end} characters cut]` : '';
  return `${before}${line.slice(start, end)}${after}`;
}
