import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import type { ToolCallAnswer } from '../../client/client.ts';
import { printable } from '../terminal/words.ts';

/** A call that a run waits for, as its event describes it. */
type AskedCall = Readonly<{ toolName: string; args: unknown }>;

/** The answer for the run, and its words for people. */
type Decision = Readonly<{ answer: ToolCallAnswer; says: string }>;

/** Decides on a call. @throws the signal's reason while a person is being asked */
export type Approver = (call: AskedCall, signal: AbortSignal) => Promise<Decision>;

export type ApproverOptions = Readonly<{
  /** The model is simulated by a script, so its commands are known. */
  isSimulated: boolean;
  yes: boolean;
  input: Readable & Readonly<{ isTTY?: boolean }>;
  output: Writable;
}>;

const APPROVE = { decision: 'approve' } as const;

/** Shows the whole call: a person cannot approve parts that were cut out. */
function questionAbout({ toolName, args }: AskedCall): string {
  const { command, ...others } = Object(args);
  const isCommand = typeof command === 'string' && Object.keys(others).length === 0;
  const text = printable(isCommand ? command : JSON.stringify(args, null, 2));
  return `\n${text.replace(/^/gm, '    ')}\n\n  Run this with ${toolName}? [y/N] `;
}

/** Approves by itself only known calls, or all with `--yes`. Otherwise asks the person at the terminal. */
export function createApprover({ isSimulated, yes, input, output }: ApproverOptions): Approver {
  if (isSimulated) return async () => ({ answer: APPROVE, says: 'approved by the demo: a script chose the command' });
  if (yes) return async () => ({ answer: APPROVE, says: 'approved by --yes' });
  if (input.isTTY !== true) {
    const reason = 'No person can approve a command here: go on without it.';
    const says = 'denied: there is no terminal to ask at; --yes approves every command';
    return async () => ({ answer: { decision: 'deny', reason }, says });
  }
  return async (call, signal) => {
    // Not as a terminal, so that the system edits the line and Ctrl-C stays a signal.
    using terminal = createInterface({ input, output, terminal: false });
    const isYes = /^y(es)?$/i.test((await terminal.question(questionAbout(call), { signal })).trim());
    if (isYes) return { answer: APPROVE, says: 'approved by you' };
    return {
      answer: { decision: 'deny', reason: 'The user does not want this command to be run.' },
      says: 'denied by you',
    };
  };
}
