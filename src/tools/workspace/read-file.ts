import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { looksBinary } from './binary.ts';
import { WorkspaceError } from './workspace-error.ts';
import { openRegularFile } from './workspace-folder.ts';
import type { Workspace } from './workspace-limits.ts';
import { resolveInWorkspace } from './workspace-path.ts';
import { workspaceTool } from './workspace-tool.ts';

const READ_BYTES = 64 * 1024;

/** `read_file`: numbered lines of a text file, read no further than needed. */
export function createReadFileTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'read_file',
    description:
      'Reads a text file of the workspace. Every line is "<number><tab><text>". ' +
      `At most ${limits.readMaxLines} lines a call and ${limits.readMaxLineChars} characters a line; ` +
      'what was cut is marked, with the offset to go on from. Binary files are refused.',
    inputSchema: z.strictObject({
      path: z.string().min(1).describe('File, relative to the workspace root.'),
      offset: z.int().min(1).optional().describe('First line to read, counted from 1. Default: 1.'),
      limit: z
        .int()
        .min(1)
        .max(limits.readMaxLines)
        .optional()
        .describe(`Number of lines to read. Default and maximum: ${limits.readMaxLines}.`),
    }),
    readOnly: true,
    run: async ({ path, offset = 1, limit = limits.readMaxLines }, { signal }) => {
      const file = await resolveInWorkspace(root, path);
      await using handle = await openRegularFile(file);
      const window = createLineWindow(offset, limit, limits.readMaxLineChars);
      const more = await fill(window, handle, file.display, signal);
      const { lines, totalLines, carriageReturns } = window.end();
      if (totalLines === 0) return '[empty file]';
      if (lines.length === 0) throw beyondEnd(offset, totalLines);
      return [
        ...lines.map((line, index) => numbered(line, offset + index)),
        ...(carriageReturns ? ['[lines end with CRLF: line breaks in this file are \\r\\n]'] : []),
        ...(more ? [`[cut after line ${offset + limit - 1}: go on with offset ${offset + limit}]`] : []),
      ].join('\n');
    },
  });
}

/** Reads into the window until it is full. True: the file goes on. */
async function fill(window: LineWindow, handle: FileHandle, display: string, signal: AbortSignal): Promise<boolean> {
  const decoder = new TextDecoder();
  const buffer = Buffer.alloc(READ_BYTES);
  for (let first = true; ; first = false) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, READ_BYTES, null);
    const bytes = buffer.subarray(0, bytesRead);
    if (first && looksBinary(bytes)) throw await binaryFile(handle, display);
    if (bytesRead === 0) return window.push(decoder.decode());
    if (window.push(decoder.decode(bytes, { stream: true }))) return true;
  }
}

function numbered({ text, cutChars }: Line, lineNumber: number): string {
  const cut = cutChars > 0 ? ` [line cut: ${cutChars} more characters]` : '';
  return `${String(lineNumber).padStart(6)}\t${text}${cut}`;
}

async function binaryFile(handle: FileHandle, display: string): Promise<WorkspaceError> {
  const { size } = await handle.stat();
  return new WorkspaceError(
    'BINARY_FILE',
    `${JSON.stringify(display)} is a binary file (${size} bytes) and cannot be read as text.`,
  );
}

function beyondEnd(offset: number, totalLines: number): WorkspaceError {
  return new WorkspaceError(
    'OFFSET_BEYOND_END',
    `Offset ${offset} is beyond the end: the file has ${totalLines} ${totalLines === 1 ? 'line' : 'lines'}.`,
  );
}

/** One line of a file; `cutChars` characters were cut from its end. */
type Line = Readonly<{ text: string; cutChars: number }>;

/** Picks lines out of a text that comes in pieces. Holds only those lines, each up to its limit. */
type LineWindow = Readonly<{
  /** Takes the next piece. True: the window is full and there is more text, so no further piece is needed. */
  push: (text: string) => boolean;
  end: () => Readonly<{ lines: readonly Line[]; totalLines: number; carriageReturns: boolean }>;
}>;

/**
 * A window of `limit` lines from line `offset` (1-based), each cut after `maxLineChars` characters. A line break ends a
 * line.
 */
function createLineWindow(offset: number, limit: number, maxLineChars: number): LineWindow {
  const lines: Line[] = [];
  let lineNumber = 1;
  let kept = '';
  let length = 0;
  let lastChar = '';
  let carriageReturns = false;

  const take = (text: string): void => {
    if (text === '') return;
    length += text.length;
    lastChar = text.slice(-1);
    if (lineNumber >= offset && kept.length < maxLineChars) kept += text.slice(0, maxLineChars - kept.length);
  };
  const finishLine = (): void => {
    const chars = lastChar === '\r' ? length - 1 : length;
    if (lineNumber >= offset) {
      carriageReturns ||= lastChar === '\r';
      const cutChars = Math.max(0, chars - maxLineChars);
      // A copy: a slice would keep its whole source piece in memory.
      lines.push({ text: cutChars > 0 ? Buffer.from(kept).toString() : kept.slice(0, chars), cutChars });
    }
    lineNumber += 1;
    kept = '';
    length = 0;
    lastChar = '';
  };

  return {
    push: (text) => {
      let from = 0;
      while (from < text.length) {
        if (lines.length === limit) return true;
        const lineBreak = text.indexOf('\n', from);
        take(text.slice(from, lineBreak === -1 ? undefined : lineBreak));
        if (lineBreak === -1) return false;
        finishLine();
        from = lineBreak + 1;
      }
      return false;
    },
    end: () => {
      if (length > 0) finishLine();
      return { lines, totalLines: lineNumber - 1, carriageReturns };
    },
  };
}
