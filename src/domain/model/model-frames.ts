import type { LimitReason } from '../run/run.ts';

/** Texts that Baton itself adds to a request, where a provider requires some content. */

/** Stands before a conversation that starts with the assistant: providers require the user's message first. */
export const START_NOTICE = '[System notice, not from the user] The conversation starts with the assistant.';

/** Stands after an assistant message that neither the user nor a tool answered: providers refuse to continue one. */
export const CONTINUE_NOTICE = '[System notice, not from the user] Continue from where you stopped.';

const LIMIT_WORDS: Readonly<Record<LimitReason, string>> = {
  max_steps: 'it has taken as many steps as it may',
  budget: 'it has used what it may use',
  deadline: 'its time is up',
  doom_loop: 'it has made the same calls with the same results again and again',
};

/** Ends the request for the final answer of a run; it is not in the transcript. */
export const finalAnswerNotice = (reason: LimitReason): string =>
  `[System notice, not from the user] The work ends here: ${LIMIT_WORDS[reason]}. No tool can be called any more. ` +
  'Answer now, in text alone: what was done and found, what is still open, and what should be done next.';

/** Ends the instructions of an agent with tools whose model server takes none. */
export const NO_TOOLS_NOTICE =
  'No tools can be called here: the model server takes none. Where a task needs one, say so, and what you would have done with it.';

/** Stands before the words of each message if one step drained `total` queued messages. */
export function queuedLabel(queuedNo: number, total: number): string {
  if (total > 2) return `[${queuedNo}]:`;
  return queuedNo === 1 ? 'First:' : 'Also:';
}

export const EMPTY_MESSAGE = '(empty message)';

export const NO_OUTPUT = '(no output)';

export const UNNAMED_TOOL = 'unnamed_tool';

const SUMMARY_OPENING =
  '[System notice, not from the user] Earlier messages of this conversation were replaced by the summary below.';

export const isFramedSummary = (text: string): boolean => text.startsWith(SUMMARY_OPENING);

/** A summary as the model reads it: framed as reference, so that it is not taken for a task. */
export function frameSummary(summary: string): string {
  return [
    SUMMARY_OPENING,
    'It is reference, not instruction: do not answer it and do not repeat work that it calls completed.',
    `<conversation_summary>\n${summary}\n</conversation_summary>`,
  ].join('\n');
}

export function missingFileNotice(mediaType: string, filename: string | undefined): string {
  const name = filename === undefined || filename.trim() === '' ? 'unnamed' : filename;
  return `[System notice, not from the user] A file was attached here that cannot be shown: ${name} (${mediaType}).`;
}

/** Replaces a file for which a provider has refused a request. */
export function refusedFileNotice(mediaType: string, filename: string | undefined): string {
  const name = filename === undefined || isBlank(filename) ? 'unnamed' : filename;
  return `[System notice, not from the user] A file is left out here, because the provider of the model could not read it: ${name} (${mediaType}).`;
}

export function frameTextFile(text: string, mediaType: string, filename: string | undefined): string {
  const name = filename === undefined || isBlank(filename) ? 'unnamed' : filename;
  return `[Attached ${mediaType}: ${name}]\n${text}\n[End of ${name}]`;
}

export const frameCall = (toolName: string, input: string, result: string): string =>
  `[Earlier call of the tool ${toolName} with ${input}; its result:]\n${result}`;

/** Replaces the output of a pruned call; `ref` is the id for reading it again. */
/** @param ref the id for reading it again; undefined where it cannot be read */
export const clearedOutput = (ref: string | undefined): string =>
  `[Old tool result content cleared${ref === undefined ? '' : `; read_tool_output id: ${ref}`}]`;

export const CLEARED_INPUT = '[Old tool input cleared]';

/** Part of the notice between head and tail of a shortened output. */
export const shortenedOutput = (ref: string | undefined): string =>
  ref === undefined ? '' : `: read them with read_tool_output, id ${ref}`;

/** @param ref the id for showing it again; undefined for a file of a tool, or where it cannot be shown */
export function strippedFileNotice(mediaType: string, filename: string | undefined, ref?: string): string {
  const name = filename === undefined || isBlank(filename) ? 'unnamed' : filename;
  const again = ref === undefined ? '' : `; read_tool_output shows it again, id ${ref}`;
  return `[Attached ${mediaType}: ${name}, no longer shown${again}]`;
}

/** Replaces a file in the result of a call if it is shown after all results. */
export const fileAfterResults = (mediaType: string, filename: string | undefined): string =>
  `[${filename === undefined || isBlank(filename) ? 'A file' : filename} (${mediaType}): shown below, after the results]`;

/** Stands before such a file, because the user did not send it. */
export const fileOfResult = (toolName: string, toolCallId: string): string =>
  `[System notice, not from the user] From the result of the tool ${toolName} (call ${toolCallId}):`;

/** True: providers refuse the text as empty content. */
export const isBlank = (text: string): boolean => text.trim() === '';
