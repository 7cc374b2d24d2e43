import type { ToolLimits } from '../../agents/tool-sources.ts';
import { MAX_KEPT_OUTPUT_CHARS } from '../../domain/tunables.ts';

/** Limits of one call of a workspace tool. Characters are UTF-16 code units. */
export type WorkspaceLimits = Readonly<{
  listMaxEntries: number;
  /** Lines that one `read_file` returns: default and maximum. */
  readMaxLines: number;
  readMaxLineChars: number;
  /** Matches that one `grep` returns: default and maximum. */
  grepMaxMatches: number;
  grepMaxLineChars: number;
  /** Larger files are left out of a search, and the result says so. */
  grepMaxFileBytes: number;
  grepTimeoutMs: number;
  /** Largest file that `write_file` writes and `edit_file` edits. */
  writeMaxBytes: number;
  /** Characters of a command's output that are kept; of longer output head and tail. */
  bashMaxOutputChars: number;
  bashDefaultTimeoutMs: number;
  bashMaxTimeoutMs: number;
}>;

/** Room for the notices of `bash` beside the output: the cut, and the exit code. */
const BASH_NOTICE_CHARS = 200;

export const defaultWorkspaceLimits: WorkspaceLimits = {
  listMaxEntries: 1_000,
  readMaxLines: 2_000,
  readMaxLineChars: 2_000,
  grepMaxMatches: 1_000,
  grepMaxLineChars: 500,
  grepMaxFileBytes: 20 * 1024 * 1024,
  grepTimeoutMs: 30_000,
  writeMaxBytes: 10 * 1024 * 1024,
  bashMaxOutputChars: MAX_KEPT_OUTPUT_CHARS - BASH_NOTICE_CHARS,
  bashDefaultTimeoutMs: 120_000,
  bashMaxTimeoutMs: 600_000,
};

/** One directory that tools work in. `root` is absolute; it may itself be a symbolic link. */
export type Workspace = Readonly<{ root: string; limits: WorkspaceLimits }>;

/** The limits that an agent's `toolLimits` override. A limit at the source saves reading the rest. */
export function workspaceLimitsOf({ read_file: readFile, grep }: ToolLimits): Partial<WorkspaceLimits> {
  return {
    ...(readFile?.maxLines !== undefined && { readMaxLines: readFile.maxLines }),
    ...(readFile?.maxLineLength !== undefined && { readMaxLineChars: readFile.maxLineLength }),
    ...(grep?.maxMatches !== undefined && { grepMaxMatches: grep.maxMatches }),
  };
}
