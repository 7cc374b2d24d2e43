import { strippedFileNotice } from '../../model/model-frames.ts';
import { partsWithoutRefs } from '../../model/shown-parts.ts';
import type { CompactedMessage } from '../../transcript/conversation.ts';
import type { FilePart, OutputItem, Part, ToolOutput, ToolPart, ViewMessage } from '../../transcript/message.ts';
import { isSettledCall } from '../../transcript/tool-call.ts';
import { MAX_SUMMARY_TOKENS } from '../limits/thresholds.ts';
import { listBounds } from './compaction-plan.ts';
import { composeSummary, readSummary } from './summary-document.ts';
import { NO_USER_MESSAGES } from './user-messages.ts';

type File = Pick<FilePart, 'mediaType' | 'filename' | 'url'>;

/** The URL by which a file can be read without the session. Null: there is none, and a text says so. */
type PortableUrl = (file: File) => string | null;

/**
 * The messages of a view as any other session can import them: as the model is shown them, without reasoning and other
 * data that only their provider understands, and without ids of what only this session has. Pure.
 */
export function portableMessages(view: readonly ViewMessage[], urlOf: PortableUrl): CompactedMessage[] {
  return view.flatMap((message) => {
    const parts = partsWithoutRefs(message).flatMap((part) => portablePart(message, part, urlOf));
    return parts.length === 0 ? [] : [{ role: message.role, parts }];
  });
}

function portablePart(message: ViewMessage, part: Part, urlOf: PortableUrl): readonly Part[] {
  switch (part.type) {
    case 'text':
      return [{ type: part.type, text: part.text }];
    case 'compaction':
      return [{ type: part.type, text: portableSummary(message, part.text) }];
    case 'file':
      // No model is sent files of the assistant.
      return message.role === 'user' ? [portableFile(part, urlOf)] : [];
    case 'tool':
      return [portableCall(part, urlOf)];
    default:
      return [];
  }
}

/** A summary as the first message of another session, which stands for itself and what came before it. */
function portableSummary(message: ViewMessage, text: string): string {
  const summary = readSummary([message]);
  if (summary === null) return text;
  const { body, resources } = summary;
  const firstUser = summary.firstUser === null ? null : { ...summary.firstUser, seq: 1 };
  const bounds = listBounds({ summaryTokens: MAX_SUMMARY_TOKENS });
  const place = { round: 1, fromSeq: 1, uptoSeq: 1 };
  return composeSummary({ ...place, firstUser, body, userMessages: NO_USER_MESSAGES, resources }, bounds);
}

function portableFile({ mediaType, filename, url }: File, urlOf: PortableUrl): OutputItem {
  const portable = urlOf({ mediaType, filename, url });
  if (portable === null) return { type: 'text', text: strippedFileNotice(mediaType, filename) };
  return { type: 'file', mediaType, ...(filename !== undefined && { filename }), url: portable };
}

/** Of a call that is still open. */
const NO_OUTCOME = 'The call had no result yet when the conversation was compacted.';

function portableCall({ toolCallId, toolName, input, state, output }: ToolPart, urlOf: PortableUrl): ToolPart {
  const call = { type: 'tool' as const, toolCallId, toolName, input };
  if (!isSettledCall(state) || output === undefined) {
    return { ...call, state: 'error', output: { type: 'error-text', value: NO_OUTCOME } };
  }
  return { ...call, state: state === 'completed' ? state : 'error', output: portableOutput(output, urlOf) };
}

function portableOutput(output: ToolOutput, urlOf: PortableUrl): ToolOutput {
  if (output.type !== 'content') return output;
  const value = output.value.map((item) => (item.type === 'file' ? portableFile(item, urlOf) : item));
  return { type: output.type, value };
}
