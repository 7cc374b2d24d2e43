import type { Db } from '../store/db/database.ts';
import { createListTouchedFilesTool } from './list-touched-files.ts';
import { createReadToolOutputTool } from './read-tool-output.ts';
import type { ServerTool } from './tool.ts';

/** The tools that read content which the view shows only in part or no longer. Every agent with a tool has them. */
export function createSessionTools(db: Db): ServerTool[] {
  return [createReadToolOutputTool(db), createListTouchedFilesTool(db)];
}
