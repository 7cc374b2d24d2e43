import type { BatonClient } from '../client/client.ts';
import type { Part, ToolOutput } from '../domain/transcript/message.ts';

const REFERENCE = /^@blob:(blob_[0-9a-f]{32})$/;

/** Puts the bytes of files into their parts, so that a case needs no other file. */
export async function inlineFiles<T extends Part>(client: BatonClient, parts: readonly T[]): Promise<T[]> {
  return Promise.all(parts.map((part) => inlinePart(client, part)));
}

async function inlinePart<T extends Part>(client: BatonClient, part: T): Promise<T> {
  if (part.type === 'file') return { ...part, ...(await inlineFile(client, part)) };
  if (part.type !== 'tool' || part.output?.type !== 'content') return part;
  const value = await Promise.all(
    part.output.value.map((item) => (item.type === 'file' ? inlineFile(client, item) : item)),
  );
  const output: ToolOutput = { type: 'content', value };
  return { ...part, output };
}

type File = Readonly<{ mediaType: string; url: string; sizeBytes?: number | undefined }>;

async function inlineFile<T extends File>(client: BatonClient, file: T): Promise<T> {
  const blobId = REFERENCE.exec(file.url)?.[1];
  if (blobId === undefined) return file;
  const bytes = Buffer.from(await (await client.blobs.download(blobId)).arrayBuffer());
  const { sizeBytes: _size, ...rest } = file;
  return { ...rest, url: `data:${file.mediaType};base64,${bytes.toString('base64')}` } as T;
}
