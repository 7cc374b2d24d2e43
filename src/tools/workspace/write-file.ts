import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { writeAtomically } from './atomic-write.ts';
import { withFileLock } from './file-lock.ts';
import { WorkspaceError } from './workspace-error.ts';
import type { Workspace } from './workspace-limits.ts';
import { resolveInWorkspace } from './workspace-path.ts';
import { workspaceTool } from './workspace-tool.ts';

/** `write_file`: creates or replaces a whole file, atomically. */
export function createWriteFileTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'write_file',
    description:
      'Creates a text file of the workspace or replaces its whole content; missing parent directories are created. ' +
      'To change a part of a file use edit_file.',
    inputSchema: z.strictObject({
      path: z.string().min(1).describe('File, relative to the workspace root.'),
      content: z.string().describe('The whole new content.'),
    }),
    run: async ({ path, content }, { signal }) => {
      const bytes = encodeWithin(content, limits.writeMaxBytes);
      const file = await resolveInWorkspace(root, path);
      const rewrite = async () => ({ bytes, result: undefined });
      const { isNew } = await withFileLock(file.real, signal, () => writeAtomically(file, rewrite, signal));
      return `${isNew ? 'Created' : 'Replaced'} ${file.display} (${bytes.byteLength} bytes).`;
    },
  });
}

/** UTF-8 bytes of a file's new content. @throws WorkspaceError `FILE_TOO_LARGE` */
export function encodeWithin(content: string, maxBytes: number): Uint8Array {
  const bytes = Buffer.from(content);
  if (bytes.byteLength <= maxBytes) return bytes;
  throw new WorkspaceError(
    'FILE_TOO_LARGE',
    `The file would be ${bytes.byteLength} bytes; at most ${maxBytes} can be written.`,
  );
}
