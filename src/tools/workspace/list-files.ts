import { lstat } from 'node:fs/promises';
import { basename } from 'node:path';
import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { createFolderCursor, type FolderCursor, skippedDirectories, type WalkEntry, walk } from './walk.ts';
import type { Workspace } from './workspace-limits.ts';
import { displayPath, relativeToRoot, resolveInWorkspace } from './workspace-path.ts';
import { workspaceTool } from './workspace-tool.ts';

/** `list_files`: the entries of a directory, one a line with its size in bytes, sorted. */
export function createListFilesTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'list_files',
    description:
      'Lists a directory of the workspace: one path a line, relative to the workspace root, with the size of files. ' +
      `Directories end with "/", symbolic links with "@". Recursive listings leave out the contents of ${skippedDirectories}. ` +
      `At most ${limits.listMaxEntries} entries.`,
    inputSchema: z.strictObject({
      path: z.string().min(1).optional().describe('Directory, relative to the workspace root. Default: the root.'),
      recursive: z.boolean().optional().describe('Also list everything below. Default: false.'),
    }),
    readOnly: true,
    run: async ({ path = '.', recursive = false }, { signal }) => {
      const start = await resolveInWorkspace(root, path);
      const lines: string[] = [];
      await using cursor = createFolderCursor(start.root);
      for await (const entry of walk(start, { recursive, signal })) {
        if (lines.length === limits.listMaxEntries) {
          lines.push(`[stopped after ${limits.listMaxEntries} entries: there are more; list a subdirectory instead]`);
          break;
        }
        lines.push(await entryLine(start.root, cursor, entry));
      }
      return lines.length === 0 ? '[empty directory]' : lines.join('\n');
    },
  });
}

async function entryLine(
  realRoot: string,
  cursor: FolderCursor,
  { real, kind, notEntered }: WalkEntry,
): Promise<string> {
  const display = displayPath(relativeToRoot(realRoot, real));
  switch (kind) {
    case 'directory':
      return notEntered === undefined ? `${display}/` : `${display}/\t[contents not listed: ${notEntered}]`;
    case 'link':
      return `${display}@`;
    case 'other':
      return `${display}\t[special file]`;
    case 'file': {
      // The file may be gone since the directory was read.
      const bytes = await sizeOf(cursor, real).catch(() => undefined);
      return bytes === undefined ? `${display}\t[gone]` : `${display}\t${bytes} bytes`;
    }
  }
}

async function sizeOf(cursor: FolderCursor, real: string): Promise<number> {
  const folder = await cursor.folderOf(real);
  return (await lstat(folder.pathOf(basename(real)))).size;
}
