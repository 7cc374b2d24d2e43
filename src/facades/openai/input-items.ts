import { formatCallId } from '../../domain/ids.ts';
import type { FilePart, Part, ToolPart } from '../../domain/transcript/message.ts';
import { outputText } from '../../domain/transcript/output-text.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import {
  findMessageSeq,
  findStepSeqAfter,
  findTakenUpSeq,
  hasSeveralMessages,
} from '../../store/transcript/input-end.ts';
import { listMessages, listNewestMessages, type TranscriptMessage } from '../../store/transcript/messages.ts';
import { refuse } from './conversation-request.ts';
import type { FoundResponse } from './find-response.ts';
import { formatCallItemId, formatInputItemId, formatResultItemId, parseInputItemId } from './response-ids.ts';

type Item = Readonly<{ id: string; type: string; [field: string]: unknown }>;
type ItemPage = Readonly<{ items: readonly Item[]; hasMore: boolean }>;
export type ItemQuery = Readonly<{ limit: number; order: 'asc' | 'desc'; after: string | undefined }>;

/**
 * The items of which a response was made, in pages.
 * @throws ProblemError `invalid_request` (`after` is no item of the session)
 */
export async function readInputItems(deps: HttpDeps, found: FoundResponse, query: ItemQuery): Promise<ItemPage> {
  const { limit, order, after } = query;
  const endSeq = await findEndSeq(deps, found);
  const items: Item[] = [];
  let from = after === undefined ? null : await findAfter(deps, found, after);
  // The message of the last item may have more of them.
  let hasSeen = after === undefined;
  for (;;) {
    const page = await readPage(deps, found, { order, from, endSeq });
    for (const item of page.flatMap((message) => itemsOf(message, order))) {
      if (hasSeen) items.push(item);
      hasSeen ||= item.id === after;
    }
    const last = page.at(-1);
    if (last === undefined || items.length > limit) break;
    from = order === 'asc' ? last.seq + 1 : last.seq - 1;
  }
  return { items: items.slice(0, limit), hasMore: items.length > limit };
}

/** The number of the first message that a response was not made of. Null: it has not begun. */
async function findEndSeq({ db }: HttpDeps, { caller, sessionId, place }: FoundResponse): Promise<number | null> {
  const session = { tenantId: caller.tenantId, sessionId };
  if (place.kind === 'run') {
    return findStepSeqAfter(db, { ...session, runId: place.runId, afterSeq: place.afterSeq ?? 0 });
  }
  const seq = await findTakenUpSeq(db, { ...session, messageId: place.messageId });
  return seq === null ? null : seq + 1;
}

async function findAfter({ db }: HttpDeps, { caller, sessionId }: FoundResponse, after: string): Promise<number> {
  const item = parseInputItemId(after);
  const session = { tenantId: caller.tenantId, sessionId };
  const seq = item === null ? null : await findMessageSeq(db, { ...session, messageId: item.messageId });
  return seq ?? refuse('after', 'no item of this response');
}

/** Messages that are read at once. */
const MESSAGES = 100;

type Stretch = Readonly<{ order: 'asc' | 'desc'; from: number | null; endSeq: number | null }>;

/** Messages in their order, from this number on. */
async function readPage(
  { db }: HttpDeps,
  { caller: { tenantId }, sessionId }: FoundResponse,
  { order, from, endSeq }: Stretch,
): Promise<readonly TranscriptMessage[]> {
  if (order === 'desc') {
    const beforeSeq = from === null ? endSeq : from + 1;
    return (await listNewestMessages(db, tenantId, sessionId, { beforeSeq, limit: MESSAGES })).toReversed();
  }
  const page = await listMessages(db, tenantId, sessionId, { afterSeq: (from ?? 1) - 1, limit: MESSAGES });
  return endSeq === null ? page : page.filter(({ seq }) => seq < endSeq);
}

function itemsOf(message: TranscriptMessage, order: ItemQuery['order']): readonly Item[] {
  // A summary stands beside the messages that it replaces in the view.
  if (message.summaryOf !== null || message.parts.some(({ type }) => type === 'compaction')) return [];
  const items = message.role === 'user' ? [userItem(message)] : message.parts.flatMap(answerItems(message.id));
  return order === 'asc' ? items : items.toReversed();
}

const userItem = ({ id, parts }: TranscriptMessage): Item => ({
  id: formatInputItemId(id, 0),
  ...{ type: 'message', role: 'user', status: 'completed', content: parts.flatMap(contentOf) },
});

function contentOf(part: Part): readonly object[] {
  if (part.type === 'text') return [{ type: 'input_text', text: part.text }];
  return part.type === 'file' ? [fileContent(part)] : [];
}

/** A blob is a file with its id. */
function fileContent({ mediaType, filename, url }: FilePart): object {
  const [, blobId = null] = /^@blob:(.+)$/.exec(url) ?? [];
  if (mediaType.startsWith('image/')) {
    return { type: 'input_image', detail: 'auto', file_id: blobId, image_url: blobId === null ? url : null };
  }
  const place = blobId === null ? { file_id: null, file_url: url } : { file_id: blobId };
  return { type: 'input_file', ...place, ...(filename !== undefined && { filename }) };
}

const answerItems =
  (messageId: string) =>
  (part: Part, index: number): readonly Item[] => {
    if (part.type === 'tool') return callItems(part, formatCallId(messageId, index));
    if (part.type !== 'text' || part.text === '') return [];
    const content = [{ type: 'output_text', text: part.text, annotations: [], logprobs: [] }];
    return [
      {
        id: formatInputItemId(messageId, index),
        ...{ type: 'message', role: 'assistant', status: 'completed', content },
      },
    ];
  };

function callItems({ toolName, input, output }: ToolPart, callId: string): readonly Item[] {
  const called = { call_id: callId, status: 'completed' };
  const args = JSON.stringify(input);
  return [
    { id: formatCallItemId(callId), type: 'function_call', ...called, name: toolName, arguments: args },
    ...(output === undefined
      ? []
      : [{ id: formatResultItemId(callId), type: 'function_call_output', ...called, output: outputText(output) }]),
  ];
}

/** Whether a response is not the only one of its session. Those with the same message count as one. */
export const hasSiblings = ({ db }: HttpDeps, { caller: { tenantId }, sessionId }: FoundResponse): Promise<boolean> =>
  hasSeveralMessages(db, { tenantId, sessionId });
