import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { runInThread, threadModule } from '../run-in-thread.ts';
import type { ServerTool } from '../tool.ts';
import type { GrepOutcome, GrepRequest } from './grep-search.ts';
import { skippedDirectories } from './walk.ts';
import { WorkspaceError } from './workspace-error.ts';
import { statInWorkspace } from './workspace-folder.ts';
import type { Workspace, WorkspaceLimits } from './workspace-limits.ts';
import { resolveInWorkspace } from './workspace-path.ts';
import { workspaceTool } from './workspace-tool.ts';

/** Time to end and answer a search before the runner's own limit. */
const TIMEOUT_MARGIN_MS = 5_000;
const THREAD = threadModule(new URL('./grep-thread.ts', import.meta.url));
const MAX_PATTERN_CHARS = 1_000;

/** `grep`: searches file contents by regular expression, in a thread that is ended on timeout and abort. */
export function createGrepTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'grep',
    description:
      'Searches text files of the workspace line by line for a JavaScript regular expression. ' +
      'Every match is "<path>:<line>: <text>", paths relative to the workspace root. ' +
      `Binary files, symbolic links and the contents of ${skippedDirectories} are left out. ` +
      `At most ${limits.grepMaxMatches} matches; lines longer than ${limits.grepMaxLineChars} characters are cut.`,
    inputSchema: inputSchema(limits),
    readOnly: true,
    timeoutMs: limits.grepTimeoutMs + TIMEOUT_MARGIN_MS,
    run: async ({ pattern, path = '.', glob, ignoreCase = false, maxMatches = limits.grepMaxMatches }, { signal }) => {
      assertPattern(pattern);
      const start = await resolveInWorkspace(root, path);
      await statInWorkspace(start);
      const request: GrepRequest = {
        root: start.root,
        start: start.real,
        pattern,
        ignoreCase,
        ...(glob !== undefined && { glob }),
        maxMatches,
        maxLineChars: limits.grepMaxLineChars,
        maxFileBytes: limits.grepMaxFileBytes,
      };
      return report(await searchInThread(request, limits.grepTimeoutMs, signal), maxMatches);
    },
  });
}

function inputSchema(limits: WorkspaceLimits) {
  return z.strictObject({
    pattern: z.string().min(1).max(MAX_PATTERN_CHARS).describe('JavaScript regular expression, without slashes.'),
    path: z.string().min(1).optional().describe('File or directory to search. Default: the workspace root.'),
    glob: z
      .string()
      .min(1)
      .max(MAX_PATTERN_CHARS)
      .optional()
      .describe('Only files that match, such as "*.ts" (by name) or "src/**/*.{ts,js}" (by path).'),
    ignoreCase: z.boolean().optional().describe('Ignore upper and lower case. Default: false.'),
    maxMatches: z
      .int()
      .min(1)
      .max(limits.grepMaxMatches)
      .optional()
      .describe(`Stop after this many matches. Default and maximum: ${limits.grepMaxMatches}.`),
  });
}

function assertPattern(pattern: string): void {
  try {
    new RegExp(pattern);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'unknown reason';
    throw new WorkspaceError(
      'INVALID_PATTERN',
      `${reason}. Use JavaScript syntax; put a backslash before ( ) [ ] { } . * + ? ^ $ | to search for the character itself.`,
      { cause },
    );
  }
}

async function searchInThread(request: GrepRequest, timeoutMs: number, signal: AbortSignal): Promise<GrepOutcome> {
  try {
    return await runInThread<GrepOutcome>(THREAD, request, timeoutMs, signal);
  } catch (error) {
    if (!(error instanceof BatonError)) throw error;
    throw error.code === 'timeout' ? searchTimeout(timeoutMs) : searchFailed({ cause: error.cause });
  }
}

function searchFailed(options?: ErrorOptions): WorkspaceError {
  return new WorkspaceError('SEARCH_FAILED', 'The search failed. Narrow it with path or glob.', options);
}

function searchTimeout(timeoutMs: number): WorkspaceError {
  return new WorkspaceError(
    'SEARCH_TIMEOUT',
    `The search was stopped after ${timeoutMs} ms. Simplify the pattern (nested repetition such as (a+)+ is slow) or narrow it with path or glob.`,
  );
}

function report({ lines, stopped, tooLarge, skipped }: GrepOutcome, maxMatches: number): string {
  return [
    ...(lines.length === 0 ? ['No matches.'] : lines),
    ...(stopped ? [`[stopped after ${maxMatches} matches: there are more; narrow the pattern, path or glob]`] : []),
    ...(tooLarge > 0 ? [`[${tooLarge} too large files not searched: use bash]`] : []),
    ...(skipped > 0 ? [`[${skipped} directories not searched: ${skippedDirectories}, or not readable]`] : []),
  ].join('\n');
}
