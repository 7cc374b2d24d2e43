import type { FileUIPart } from 'ai';

/** A file that goes along with a message: it is at the service already, and the message only names it. */
export type Attachment = FileUIPart;

/**
 * Uploads a file. In the message itself its bytes would be sent again with every later one.
 * @throws Error with what the server said
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

/** What a problem says, or whatever came instead of one. */
async function reasonIn(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return String((JSON.parse(text) as { detail?: unknown }).detail ?? text);
  } catch {
    return text;
  }
}
