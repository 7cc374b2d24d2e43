import type { CallQuestion } from '../domain/transcript/call-question.ts';
import type { CallAnswer } from '../domain/transcript/required-action.ts';

/** Thrown by a tool that asks a person for more: the run waits, and the call goes on with `ToolContext.reply`. */
export class InputNeeded extends Error {
  readonly question: CallQuestion;

  constructor(question: CallQuestion) {
    super('the tool asks for more before it goes on');
    this.question = question;
  }
}

/** What the tool has asked in this call, and the answer. */
export type ToolReply = Readonly<{ question: CallQuestion; answer: CallAnswer }>;
