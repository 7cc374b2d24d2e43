import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { writeAtomically } from './atomic-write.ts';
import { looksBinary } from './binary.ts';
import { applyEdit, type Edit, showLines } from './edit-plan.ts';
import { withFileLock } from './file-lock.ts';
import { WorkspaceError } from './workspace-error.ts';
import { openRegularFile } from './workspace-folder.ts';
import type { Workspace } from './workspace-limits.ts';
import { resolveInWorkspace, type WorkspacePath } from './workspace-path.ts';
import { workspaceTool } from './workspace-tool.ts';
import { encodeWithin } from './write-file.ts';

export function createEditFileTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'edit_file',
    description:
      'Replaces text in a file of the workspace. oldText must match exactly, including white space and line breaks, ' +
      'and must occur only once unless replaceAll is set. Read the file first.',
    inputSchema: z.strictObject({
      path: z.string().min(1).describe('File, relative to the workspace root.'),
      oldText: z.string().min(1).describe('Text to replace, without the line numbers that read_file shows.'),
      newText: z.string().describe('Text to put in its place. Empty: oldText is deleted.'),
      replaceAll: z.boolean().optional().describe('Replace every occurrence. Default: false.'),
    }),
    run: async ({ path, oldText, newText, replaceAll = false }, { signal }) => {
      const file = await resolveInWorkspace(root, path);
      return withFileLock(file.real, signal, () =>
        editFile(file, { oldText, newText, replaceAll }, limits.writeMaxBytes, signal),
      );
    },
  });
}

async function editFile(file: WorkspacePath, edit: Edit, maxBytes: number, signal: AbortSignal): Promise<string> {
  const rewrite = async () => {
    const { content, lineNumbers } = applyEdit(await readWhole(file, maxBytes, signal), edit);
    const bytes = encodeWithin(content, maxBytes);
    return { bytes, result: { lineNumbers, size: bytes.byteLength } };
  };
  // Fails before a draft is created beside a file that cannot be edited.
  await rewrite();
  const { lineNumbers, size } = (await writeAtomically(file, rewrite, signal)).result;
  const count = lineNumbers.length;
  return `Replaced ${count} ${count === 1 ? 'occurrence' : 'occurrences'} in ${file.shown} (at ${showLines(lineNumbers)}; now ${size} bytes).`;
}

async function readWhole(file: WorkspacePath, maxBytes: number, signal: AbortSignal): Promise<string> {
  await using handle = await openRegularFile(file);
  const { size } = await handle.stat();
  if (size > maxBytes) {
    throw new WorkspaceError('FILE_TOO_LARGE', `The file is ${size} bytes; at most ${maxBytes} can be edited.`);
  }
  const bytes = await handle.readFile({ signal });
  if (looksBinary(bytes)) throw notText(file);
  try {
    // fatal: writing replacement characters back would destroy bytes that are not UTF-8. ignoreBOM: it stays in the
    // file.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw notText(file, { cause });
  }
}

function notText(file: WorkspacePath, options?: ErrorOptions): WorkspaceError {
  return new WorkspaceError('BINARY_FILE', `${JSON.stringify(file.shown)} is not a UTF-8 text file.`, options);
}
