import type { FileUIPart } from 'ai';

/** A file of a message. It is uploaded first; the message holds only a reference. */
export type Attachment = FileUIPart;

/**
 * Uploads a file, because bytes inside a message would be sent again with every later request.
 * @throws Error with the server's reason
 */
export async function upload(file: File): Promise<Attachment> {
  const response = await fetch('/v1/blobs', {
    method: 'POST',
    headers: { 'content-type': file.type === '' ? 'application/octet-stream' : file.type },
    body: file,
  });
  if (!response.ok) throw new Error(`${file.name}: ${await reasonIn(response)}`);
  const { id, mediaType } = (await response.json()) as { id: string; mediaType: string };
  return { type: 'file', mediaType, filename: file.name, url: `/v1/blobs/${id}` };
}

/** The reason in a problem document, or the plain body. */
async function reasonIn(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return String((JSON.parse(text) as { detail?: unknown }).detail ?? text);
  } catch {
    return text;
  }
}
