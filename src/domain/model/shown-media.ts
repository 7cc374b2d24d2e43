import type { FilePart, OutputItem, ToolPart, ViewMessage, ViewPart } from '../transcript/message.ts';
import { onceForMessage } from '../transcript/once-for-message.ts';
import { fileRef } from '../transcript/refs.ts';
import { isInlineText } from './model-files.ts';
import { missingFileNotice, refusedFileNotice, strippedFileNotice } from './model-frames.ts';
import { insteadOfFile } from './shown-parts.ts';

export const MODEL_PROTOCOLS = ['openai-responses', 'openai-chat', 'openai-compatible', 'anthropic-messages'] as const;
export type ModelProtocol = (typeof MODEL_PROTOCOLS)[number];

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
const IMAGES_AND_PDF = [...IMAGES, 'application/pdf'] as const;

type Carried = Readonly<{
  /** In user messages. */
  user: readonly string[];
  /** In tool results, or in a user message after them. */
  toolResults: readonly string[];
  /** Fetched from a URL by the provider: a worker fetches no URL that a user names. */
  fetched: readonly string[];
}>;

/** Media types that a protocol can carry. Its model may take fewer. */
export const PROTOCOL_MEDIA: Readonly<Record<ModelProtocol, Carried>> = {
  'openai-responses': { user: IMAGES_AND_PDF, toolResults: IMAGES_AND_PDF, fetched: IMAGES_AND_PDF },
  'openai-chat': { user: IMAGES_AND_PDF, toolResults: IMAGES_AND_PDF, fetched: IMAGES },
  'openai-compatible': { user: IMAGES, toolResults: IMAGES, fetched: [] },
  'anthropic-messages': { user: IMAGES_AND_PDF, toolResults: IMAGES_AND_PDF, fetched: IMAGES_AND_PDF },
};

/** The SDK would write the base64 of a file into a text result, so the files follow in a user message. */
const TEXT_RESULTS: ReadonlySet<ModelProtocol> = new Set(['openai-chat', 'openai-compatible']);

export const sendsFilesAfterResults = (protocol: ModelProtocol): boolean => TEXT_RESULTS.has(protocol);

/** Media types that a model is sent, by place. */
export type MediaSupport = Readonly<Record<keyof Carried, ReadonlySet<string>>> &
  Readonly<{
    /** Files that its provider could not read; see `fileGroupsOf`. */
    omitted?: ReadonlySet<string>;
  }>;

/**
 * @param mediaTypes that the model takes besides text
 * @param omitted files that its provider could not read; see `fileGroupsOf`
 */
export function mediaSupportOf(
  protocol: ModelProtocol,
  mediaTypes: readonly string[],
  omitted: ReadonlySet<string> = new Set(),
): MediaSupport {
  const { user, toolResults, fetched } = PROTOCOL_MEDIA[protocol];
  const acceptedOf = (carried: readonly string[]) => new Set(carried.filter((type) => mediaTypes.includes(type)));
  return { user: acceptedOf(user), toolResults: acceptedOf(toolResults), fetched: acceptedOf(fetched), omitted };
}

/** Most bytes of files in one request; as base64 about the providers' limit. The newest files count first. */
export const MAX_REQUEST_MEDIA_BYTES = 20_971_520;

export type ShownMedia = Readonly<{
  view: readonly ViewMessage[];
  unsupported: readonly string[];
}>;

/**
 * Puts a text in place of each file that the model cannot be shown, and of the oldest ones beyond the byte limit. No
 * other code decides this: the request and the meter both read the result.
 *
 * Pure and idempotent. Indexes stay; a view without files is returned as it is.
 */
export function showMedia(view: readonly ViewMessage[], support: MediaSupport): ShownMedia {
  if (!view.some(hasFiles)) return { view, unsupported: [] };
  const seen: Seen = { bytes: 0, unsupported: new Set(), support };
  const newestFirst = view.toReversed().map((message) => (hasFiles(message) ? shownMessage(message, seen) : message));
  return { view: newestFirst.toReversed(), unsupported: [...seen.unsupported].sort() };
}

type Seen = { bytes: number; unsupported: Set<string>; support: MediaSupport };

export const hasFiles = onceForMessage((message) =>
  message.parts.some((part) => (message.role === 'user' ? isShownFile(part) : filesOfOutput(part).length > 0)),
);

const isShownFile = (part: ViewPart): part is FilePart => part.type === 'file' && part.marks?.mediaStripped !== true;

/** Files in the output of a call, except those that the context layer has removed. */
export function filesOfOutput(part: ViewPart): readonly OutputFile[] {
  if (part.type !== 'tool' || part.output?.type !== 'content') return [];
  if (part.marks?.pruned === true || part.marks?.mediaStripped === true) return [];
  return part.output.value.filter((item) => item.type === 'file');
}

type OutputFile = Extract<OutputItem, { type: 'file' }>;

function shownMessage(message: ViewMessage, seen: Seen): ViewMessage {
  const last = message.parts.length - 1;
  const parts = message.parts.toReversed().map((part, fromEnd): ViewPart => {
    const ref = fileRef(message.seq, last - fromEnd);
    if (message.role === 'user') return isShownFile(part) ? shownFile(part, ref, seen) : part;
    return filesOfOutput(part).length > 0 ? shownOutput(part as ViewPart & ToolPart, seen) : part;
  });
  return { ...message, parts: parts.toReversed() };
}

function shownFile(part: FilePart, ref: string, seen: Seen): ViewPart {
  if (isInlineText(part)) return part;
  const notice = noticeFor(part, seen.support.user, seen, ref);
  return notice === null ? part : insteadOfFile(part, notice);
}

function shownOutput(part: ViewPart & ToolPart, seen: Seen): ViewPart {
  if (part.output?.type !== 'content') return part;
  const value = part.output.value.toReversed().map((item): OutputItem => {
    const notice = item.type === 'file' ? noticeFor(item, seen.support.toolResults, seen) : null;
    return notice === null ? item : { type: 'text', text: notice };
  });
  return { ...part, output: { type: 'content', value: value.toReversed() } };
}

/** Text in place of the file; null: the file is shown. */
function noticeFor(
  file: Omit<OutputFile, 'type'>,
  accepted: ReadonlySet<string>,
  seen: Seen,
  ref?: string,
): string | null {
  const mediaType = file.mediaType.toLowerCase();
  const isRemote = /^https?:/i.test(file.url);
  if (!accepted.has(mediaType) || (isRemote && !seen.support.fetched.has(mediaType))) {
    seen.unsupported.add(mediaType);
    return missingFileNotice(file.mediaType, file.filename);
  }
  if (seen.support.omitted?.has(fileKey(file)) === true) return refusedFileNotice(file.mediaType, file.filename);
  if (isRemote) return null;
  seen.bytes += file.sizeBytes ?? file.url.length;
  return seen.bytes > MAX_REQUEST_MEDIA_BYTES ? strippedFileNotice(file.mediaType, file.filename, ref) : null;
}

/** By which a file is left out: its URL, of which a long one counts by its beginning. */
const fileKey = ({ url }: Pick<OutputFile, 'url'>): string => url.slice(0, MAX_FILE_KEY_CHARS);
const MAX_FILE_KEY_CHARS = 300;

/** The keys of the files in a shown view: those that no whole answer has followed yet, then all of them. */
export function fileGroupsOf(view: readonly ViewMessage[]): readonly (readonly string[])[] {
  const last = view.findLastIndex(({ role }) => role === 'assistant');
  // The same picture may be shown in several places.
  const urls = (messages: readonly ViewMessage[]) => [...new Set(messages.flatMap(filesOfMessage).map(fileKey))];
  const newest = urls(view.slice(Math.max(0, last)));
  return [newest, urls(view)].filter((group) => group.length > 0);
}

const filesOfMessage = ({ role, parts }: ViewMessage): readonly Pick<OutputFile, 'url'>[] =>
  parts.flatMap((part) => (role === 'user' ? (isShownFile(part) ? [part] : []) : filesOfOutput(part)));

/** `@blob:` references of the files in a view that `showMedia` returned. */
export function blobUrlsOf(view: readonly ViewMessage[]): ReadonlySet<string> {
  const urls = view.flatMap(({ role, parts }) =>
    parts.flatMap((part) => {
      const files = role === 'user' ? (isShownFile(part) ? [part] : []) : filesOfOutput(part);
      return files.map(({ url }) => url);
    }),
  );
  return new Set(urls.filter((url) => url.startsWith(BLOB_SCHEME)));
}

const BLOB_SCHEME = '@blob:';
