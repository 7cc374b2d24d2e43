import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import type { ToolCallAnswer } from '../../client/client.ts';
import { printable } from '../terminal/words.ts';

/** A call that a run waits for, as the event tells of it. */
type AskedCall = Readonly<{ toolName: string; args: unknown }>;

/** What the run is told, and what a person reads of it. */
type Decision = Readonly<{ answer: ToolCallAnswer; says: string }>;

/** Decides about a call. @throws the signal's reason while a person is being asked */
export type Approver = (call: AskedCall, signal: AbortSignal) => Promise<Decision>;

export type ApproverOptions = Readonly<{
  /** A script stands in for the model: what it runs is known. */
  isSimulated: boolean;
  /** `--yes` was given. */
  yes: boolean;
  input: Readable & Readonly<{ isTTY?: boolean }>;
  output: Writable;
}>;

const APPROVE = { decision: 'approve' } as const;

/** The whole call: nobody can approve what was cut out. */
function questionAbout({ toolName, args }: AskedCall): string {
  const { command, ...others } = Object(args);
  const isCommand = typeof command === 'string' && Object.keys(others).length === 0;
  const text = printable(isCommand ? command : JSON.stringify(args, null, 2));
  return `\n${text.replace(/^/gm, '    ')}\n\n  Run this with ${toolName}? [y/N] `;
}

/** Approves by itself only what is known or was wanted beforehand; else asks the person at the terminal. */
export function createApprover({ isSimulated, yes, input, output }: ApproverOptions): Approver {
  if (isSimulated) return async () => ({ answer: APPROVE, says: 'approved by the demo: a script chose the command' });
  if (yes) return async () => ({ answer: APPROVE, says: 'approved by --yes' });
  if (input.isTTY !== true) {
    const reason = 'Nobody is there to approve a command: go on without it.';
    const says = 'denied: there is no terminal to ask at; --yes approves every command';
    return async () => ({ answer: { decision: 'deny', reason }, says });
  }
  return async (call, signal) => {
    // Not as a terminal: the line stays the system's to edit, and Ctrl-C a signal.
    using terminal = createInterface({ input, output, terminal: false });
    const isYes = /^y(es)?$/i.test((await terminal.question(questionAbout(call), { signal })).trim());
    if (isYes) return { answer: APPROVE, says: 'approved by you' };
    return {
      answer: { decision: 'deny', reason: 'The user does not want this command to be run.' },
      says: 'denied by you',
    };
  };
}
