import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { writeAtomically } from './atomic-write.ts';
import { looksBinary } from './binary.ts';
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
  return `Replaced ${count} ${count === 1 ? 'occurrence' : 'occurrences'} in ${file.display} (at ${showLines(lineNumbers)}; now ${size} bytes).`;
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
  return new WorkspaceError('BINARY_FILE', `${JSON.stringify(file.display)} is not a UTF-8 text file.`, options);
}

type Edit = Readonly<{ oldText: string; newText: string; replaceAll: boolean }>;

const SHOWN_OCCURRENCES = 10;

/**
 * The content after an edit, with the 1-based lines at which replaced text began. Pure.
 * @throws WorkspaceError `EDIT_NO_CHANGE`, `EDIT_NO_MATCH`, `EDIT_NOT_UNIQUE`, each with advice to the model
 */
function applyEdit(content: string, edit: Edit): Readonly<{ content: string; lineNumbers: readonly number[] }> {
  const { oldText, newText, replaceAll } = edit;
  if (oldText === newText) {
    throw new WorkspaceError('EDIT_NO_CHANGE', 'oldText and newText are the same: nothing to change.');
  }
  const lineNumbers = occurrenceLines(content, oldText);
  if (lineNumbers.length === 0) throw new WorkspaceError('EDIT_NO_MATCH', noMatchMessage(content, oldText));
  if (lineNumbers.length > 1 && !replaceAll) {
    throw new WorkspaceError(
      'EDIT_NOT_UNIQUE',
      `oldText occurs ${lineNumbers.length} times (${showLines(lineNumbers)}). ` +
        'Add surrounding lines to oldText until it is unique, or set replaceAll to change every occurrence.',
    );
  }
  // Not String.replace: it would expand "$&" and the like in newText.
  return { content: content.split(oldText).join(newText), lineNumbers };
}

/** "line 3" or "lines 3, 8, 11", at most ten of them. */
function showLines(lineNumbers: readonly number[]): string {
  const more = lineNumbers.length > SHOWN_OCCURRENCES ? ', …' : '';
  return `line${lineNumbers.length === 1 ? '' : 's'} ${lineNumbers.slice(0, SHOWN_OCCURRENCES).join(', ')}${more}`;
}

function occurrenceLines(content: string, oldText: string): number[] {
  const lineNumbers: number[] = [];
  let lineNumber = 1;
  let counted = 0;
  for (let at = content.indexOf(oldText); at !== -1; at = content.indexOf(oldText, at + oldText.length)) {
    for (let next = content.indexOf('\n', counted); next !== -1 && next < at; next = content.indexOf('\n', counted)) {
      lineNumber += 1;
      counted = next + 1;
    }
    lineNumbers.push(lineNumber);
  }
  return lineNumbers;
}

function noMatchMessage(content: string, oldText: string): string {
  const hint = noMatchHint(content, oldText);
  return `oldText was not found. It must match the file exactly, including white space. ${hint}`;
}

function noMatchHint(content: string, oldText: string): string {
  if (content.includes('\r\n') && oldText.replaceAll(/\r?\n/g, '\r\n') !== oldText) {
    const withCarriageReturns = oldText.replaceAll(/\r?\n/g, '\r\n');
    if (content.includes(withCarriageReturns))
      return 'The file has CRLF line breaks: write \\r\\n in oldText and newText.';
  }
  const withoutNumbers = oldText.replaceAll(/^ *\d+\t/gm, '');
  if (withoutNumbers !== oldText && withoutNumbers !== '' && content.includes(withoutNumbers)) {
    return 'Leave out the line numbers that read_file puts before each line.';
  }
  const firstLine = oldText
    .split('\n')
    .find((line) => line.trim() !== '')
    ?.trim();
  const similar = content.split('\n').findIndex((line) => line.trim() === firstLine);
  if (firstLine !== undefined && similar !== -1) {
    return `Line ${similar + 1} is like its first line: read the file from there and copy the text exactly.`;
  }
  return 'Read the file again and copy the text exactly.';
}
