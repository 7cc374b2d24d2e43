import { resolve } from 'node:path';
import type { ServerTool } from '../tool.ts';
import { createBashTool } from './bash.ts';
import { createEditFileTool } from './edit-file.ts';
import { createGrepTool } from './grep.ts';
import { createListFilesTool } from './list-files.ts';
import { createReadFileTool } from './read-file.ts';
import { defaultWorkspaceLimits, type Workspace, type WorkspaceLimits } from './workspace-limits.ts';
import { createWriteFileTool } from './write-file.ts';

/**
 * The tools of an agent that works on files: `list_files`, `read_file`, `grep`, `write_file`, `edit_file`, `bash`.
 * - All results are text; all errors are WorkspaceErrors whose message is for the model.
 * - The five file tools stay inside `root`, symbolic links included.
 * - `bash` is NOT a sandbox: `root` is only its working directory, and a command can do everything that the worker's
 *   user can. Leave it out for untrusted agents.
 * @param options.root the directory; relative paths count from the working directory of this process. It must exist
 * when a tool is called
 * @param options.limits overrides of the defaults
 */
export function createWorkspaceTools(
  options: Readonly<{ root: string; limits?: Partial<WorkspaceLimits> }>,
): readonly ServerTool[] {
  const workspace: Workspace = {
    root: resolve(options.root),
    limits: { ...defaultWorkspaceLimits, ...options.limits },
  };
  return [
    createListFilesTool(workspace),
    createReadFileTool(workspace),
    createGrepTool(workspace),
    createWriteFileTool(workspace),
    createEditFileTool(workspace),
    createBashTool(workspace),
  ];
}
