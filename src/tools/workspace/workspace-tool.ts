import { z } from 'zod';
import { sanitizeText } from '../sanitize-text.ts';
import type { ServerTool, Tool, ToolContext } from '../tool.ts';
import { fromSystemError, systemErrorCode, WorkspaceError } from './workspace-error.ts';

type Definition<Schema extends z.ZodType> = Omit<Tool, 'inputSchema' | 'execute'> & {
  inputSchema: Schema;
  run: (input: z.output<Schema>, context: ToolContext) => Promise<string>;
};

/**
 * A tool whose input is checked, whose output and messages are storable text and whose errors are all {@link
 * WorkspaceError}s without a path above the root.
 */
export function workspaceTool<Schema extends z.ZodType>({ run, ...rest }: Definition<Schema>): ServerTool {
  return {
    ...rest,
    execute: async (input, context) => {
      try {
        context.signal.throwIfAborted();
        return sanitizeText(await run(parse(rest.inputSchema, input), context));
      } catch (error) {
        throw toWorkspaceError(error, input, context.signal);
      }
    },
  };
}

function parse<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new WorkspaceError('INVALID_INPUT', `Invalid input:\n${z.prettifyError(parsed.error)}`, {
    cause: parsed.error,
  });
}

function toWorkspaceError(error: unknown, input: unknown, signal: AbortSignal): WorkspaceError {
  if (error instanceof WorkspaceError) {
    const message = sanitizeText(error.message);
    return message === error.message ? error : new WorkspaceError(error.code, message, { cause: error });
  }
  if (signal.aborted) return new WorkspaceError('ABORTED', 'The call was aborted.', { cause: error });
  const code = systemErrorCode(error);
  if (error instanceof Error && code !== undefined) return fromSystemError(error, code, sanitizeText(pathOf(input)));
  return new WorkspaceError('IO_ERROR', 'The tool failed unexpectedly.', { cause: error });
}

function pathOf(input: unknown): string {
  const parsed = z.object({ path: z.string() }).safeParse(input);
  return parsed.success ? parsed.data.path : '.';
}
