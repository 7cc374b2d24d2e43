import { realpath } from 'node:fs/promises';
import { z } from 'zod';
import type { ServerTool } from '../tool.ts';
import { type CommandOutcome, runSupervised } from './supervised-command.ts';
import type { Workspace, WorkspaceLimits } from './workspace-limits.ts';
import { workspaceTool } from './workspace-tool.ts';

/** Time to stop and answer a command before the runner's own limit. */
const TIMEOUT_MARGIN_MS = 10_000;
/** Characters of an output that the model is shown by default. The whole is kept and can be read in pages. */
const MAX_SHOWN_CHARS = 30_000;
/** Linux takes at most 128 KiB in one argument; a character is up to 4 bytes (2 of them in UTF-16). */
const MAX_COMMAND_CHARS = 30_000;

/**
 * `bash`: runs a shell command in the workspace root. This is NOT a sandbox: give it to trusted agents, or run workers
 * in a container.
 * - A command can read and write everything that the worker's user can, and use the network.
 * - If the system allows it, a command cannot read the worker's environment and memory (isolation.ts).
 */
export function createBashTool({ root, limits }: Workspace): ServerTool {
  return workspaceTool({
    name: 'bash',
    description:
      'Runs a bash command in the workspace root and returns stdout and stderr together, then the exit code. No input, no terminal; ' +
      'every call is a new shell. Background processes are stopped when the command ends. ' +
      'Of long output the middle is left out at first.',
    inputSchema: inputSchema(limits),
    maxOutputChars: MAX_SHOWN_CHARS,
    timeoutMs: limits.bashMaxTimeoutMs + TIMEOUT_MARGIN_MS,
    run: async ({ command, timeoutMs = defaultTimeoutMs(limits) }, { signal }) => {
      const cwd = await realpath(root);
      const maxOutputChars = limits.bashMaxOutputChars;
      return report(await runSupervised({ command, cwd, timeoutMs, maxOutputChars, signal }), timeoutMs);
    },
  });
}

function inputSchema(limits: WorkspaceLimits) {
  return z.strictObject({
    command: z
      .string()
      .min(1)
      .max(MAX_COMMAND_CHARS)
      .refine((command) => !command.includes('\u0000'), 'must not contain a NUL character')
      .describe('Command for bash -c. The working directory is the workspace root.'),
    timeoutMs: z
      .int()
      .min(1)
      .max(limits.bashMaxTimeoutMs)
      .optional()
      .describe(
        `Milliseconds after which it is stopped. Default: ${defaultTimeoutMs(limits)}, maximum: ${limits.bashMaxTimeoutMs}.`,
      ),
  });
}

function defaultTimeoutMs({ bashDefaultTimeoutMs, bashMaxTimeoutMs }: WorkspaceLimits): number {
  return Math.min(bashDefaultTimeoutMs, bashMaxTimeoutMs);
}

function report({ output, exitCode, timedOut }: CommandOutcome, timeoutMs: number): string {
  const text = output === '' ? '[no output]' : output;
  const status = timedOut
    ? `[stopped after ${timeoutMs} ms: the command and its processes were killed]`
    : `[exit code ${exitCode ?? 'unknown: its shell was killed'}]`;
  return `${text}${text.endsWith('\n') ? '' : '\n'}${status}`;
}
