import { createHash } from 'node:crypto';
import type { ToolDescription } from '../domain/context/meter/measure.ts';
import { toShownContent } from '../domain/context/shown-content.ts';
import type { MediaContents } from '../domain/model/model-files.ts';
import type { ModelMessage } from '../domain/model/model-message.ts';

/**
 * SHA-256 of what a model is shown, in hex: instructions and messages without the provider's options, files by their
 * names. The same for a request that is recomputed with `nameMedia`. Made of the hashes of the parts, so that a step
 * hashes only the parts that are new.
 * @param media the bytes of the files that the messages have, by name
 */
export function hashShown(instructions: string, messages: readonly ModelMessage[], media: MediaContents): string {
  const files = [...media];
  // Texts of files are no files: only bytes that are sent as such are looked up, and strings of other lengths differ at once.
  const nameOf = (data: string): string => files.find(([, bytes]) => bytes === data)?.[0] ?? data;
  return hashAll(
    instructions,
    messages.map(({ role, content }) => [role, content.map((part) => hashOfPart(part, nameOf))]),
  );
}

type Contents = Readonly<{ role: string; content: readonly Readonly<{ type: string }>[] }>;

/** The same of messages as the API has them. */
export const hashContents = (instructions: string, messages: readonly Contents[]): string =>
  hashAll(
    instructions,
    messages.map(({ role, content }) => [role, content.map((part) => shortHash(JSON.stringify(part)))]),
  );

type Hashed = readonly [role: string, partHashes: readonly string[]];

const hashAll = (instructions: string, messages: readonly Hashed[]): string =>
  sha256(JSON.stringify([instructions, messages]));

const partHashes = new WeakMap<object, string>();

function hashOfPart(part: ModelMessage['content'][number], nameOf: (data: string) => string): string {
  const cached = partHashes.get(part);
  if (cached !== undefined) return cached;
  const hash = shortHash(JSON.stringify(toShownContent(part, nameOf)));
  // The name of a file is the request's, not the part's.
  const hasFile = part.type === 'file' || (part.type === 'tool-result' && part.output.type === 'content');
  if (!hasFile) partHashes.set(part, hash);
  return hash;
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('base64url');

const hashes = new WeakMap<readonly ToolDescription[], string>();

/** SHA-256 of the tools of a request, in hex. Counted once for a list. */
export function hashTools(tools: readonly ToolDescription[]): string {
  const cached = hashes.get(tools);
  if (cached !== undefined) return cached;
  const hash = sha256(
    JSON.stringify(tools.map(({ name, description, inputSchema }) => [name, description, inputSchema])),
  );
  hashes.set(tools, hash);
  return hash;
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
