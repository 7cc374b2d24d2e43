import type { FilePart, Part, ToolOutput } from '../../domain/message.ts';

type UiText = { type: 'text'; text: string };
type UiFile = { type: 'file'; mediaType: string; filename?: string; url: string };

/** What a user said, as the UI shows it. */
export function toUserParts(parts: readonly Part[]): (UiText | UiFile)[] {
  return parts.flatMap((part): (UiText | UiFile)[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }];
    return part.type === 'file' ? [toFilePart(part)] : [];
  });
}

/** A file by a URL of this service, where it is a blob. A message that is sent again may name it so. */
export function toFilePart({ mediaType, filename, url }: FilePart): UiFile {
  return { type: 'file', mediaType, ...(filename !== undefined && { filename }), url: toAddress(url) };
}

/** What a tool has given, with its files by URLs of this service. */
export function toUiOutput(output: Exclude<ToolOutput, { type: 'execution-denied' | 'error-text' }>): unknown {
  if (output.type !== 'content') return output.value;
  return output.value.map((item) => (item.type === 'file' ? { ...item, url: toAddress(item.url) } : item));
}

const toAddress = (url: string): string => url.replace(/^@blob:/, '/v1/blobs/');
