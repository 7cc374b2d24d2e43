import type { Db } from '../store/database.ts';
import { createListTouchedFilesTool } from './list-touched-files.ts';
import { createReadToolOutputTool } from './read-tool-output.ts';
import type { ServerTool } from './tool.ts';

/** The tools by which an agent gets back what its view shows in part or no more. Every agent with a tool has them. */
export function createSessionTools(db: Db): ServerTool[] {
  return [createReadToolOutputTool(db), createListTouchedFilesTool(db)];
}
