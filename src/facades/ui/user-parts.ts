import type { FilePart, Part } from '../../domain/message.ts';

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
  const address = url.replace(/^@blob:/, '/v1/blobs/');
  return { type: 'file', mediaType, ...(filename !== undefined && { filename }), url: address };
}
