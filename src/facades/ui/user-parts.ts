import type { FilePart, Part, SourcePart, ToolOutput } from '../../domain/transcript/message.ts';

type UiText = { type: 'text'; text: string };
type UiFile = { type: 'file'; mediaType: string; filename?: string; url: string };

export function toUserParts(parts: readonly Part[]): (UiText | UiFile)[] {
  return parts.flatMap((part): (UiText | UiFile)[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }];
    return part.type === 'file' ? [toFilePart(part)] : [];
  });
}

/** A file; a blob has a URL of this service, which a message that is sent again may use. */
export function toFilePart({ mediaType, filename, url }: FilePart): UiFile {
  return { type: 'file', mediaType, ...(filename !== undefined && { filename }), url: toAddress(url) };
}

type UiSource =
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string };

/** A source as messages and streams of the UI have it; none if it is neither a page nor a document. */
export function toSourceParts({ sourceId, url, title, mediaType, filename }: SourcePart): UiSource[] {
  if (url !== undefined) return [{ type: 'source-url', sourceId, url, ...(title !== undefined && { title }) }];
  if (mediaType === undefined) return [];
  const named = { title: title ?? filename ?? sourceId, ...(filename !== undefined && { filename }) };
  return [{ type: 'source-document', sourceId, mediaType, ...named }];
}

/** The output of a tool, with its files by URLs of this service. */
export function toUiOutput(output: Exclude<ToolOutput, { type: 'execution-denied' | 'error-text' }>): unknown {
  if (output.type !== 'content') return output.value;
  return output.value.map((item) => (item.type === 'file' ? { ...item, url: toAddress(item.url) } : item));
}

const toAddress = (url: string): string => url.replace(/^@blob:/, '/v1/blobs/');
