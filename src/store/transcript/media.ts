import { BatonError } from '../../domain/errors.ts';
import { formatId, parseId } from '../../domain/ids.ts';
import { judgeMediaType, type RefusedFile, renameMediaType } from '../../domain/media-type.ts';
import type { MediaContents } from '../../domain/model/model-files.ts';
import { blobUrlsOf } from '../../domain/model/shown-media.ts';
import type { FilePart, OutputItem, Part, ToolOutput, UserPart, ViewMessage } from '../../domain/transcript/message.ts';
import type { CallAnswer } from '../../domain/transcript/required-action.ts';
import { MAX_BLOB_BYTES } from '../../domain/tunables.ts';
import { newId } from '../../platform/new-id.ts';
import type { Db, Tx } from '../db/database.ts';
import { attachBlobs, type BlobHash, type BlobInfo, bytesBlob, findBlobHash, type NewBlob } from './blobs.ts';

const BLOB_SCHEME = '@blob:';

const blobUrl = (id: string): string => `${BLOB_SCHEME}${formatId('blob', id)}`;

const parseBlobUrl = (url: string): string | null =>
  url.startsWith(BLOB_SCHEME) ? parseId('blob', url.slice(BLOB_SCHEME.length)) : null;

/** The bytes of the files in a view, as base64. Only blobs that the session refers to. */
export function readMedia(db: Db, sessionId: string, view: readonly ViewMessage[]): Promise<MediaContents> {
  return readBlobs(db, sessionId, [...blobUrlsOf(view)]);
}

/** Like `readMedia`, but a file that is not shown as text has its own reference in place of its bytes. */
export async function nameMedia(
  db: Db,
  sessionId: string,
  view: readonly ViewMessage[],
  isText: (file: FilePart) => boolean,
): Promise<MediaContents> {
  const files = view
    .flatMap(({ role, parts }) => (role === 'user' ? parts : []))
    .filter((part) => part.type === 'file');
  const urls = blobUrlsOf(view);
  const texts = files.filter((file) => urls.has(file.url) && isText(file)).map(({ url }) => url);
  const ids = [...urls].flatMap((url) => parseBlobUrl(url) ?? []);
  if (ids.length === 0) return new Map();
  const known = await db
    .selectFrom('blob_refs')
    .select('blob_id')
    .where('session_id', '=', sessionId)
    .where('blob_id', 'in', ids)
    .execute();
  const named = known.map(({ blob_id }) => [blobUrl(blob_id), blobUrl(blob_id)] as const);
  return new Map([...named, ...(await readBlobs(db, sessionId, [...new Set(texts)]))]);
}

async function readBlobs(db: Db, sessionId: string, urls: readonly string[]): Promise<MediaContents> {
  const ids = urls.flatMap((url) => parseBlobUrl(url) ?? []);
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('blobs')
    .innerJoin('blob_refs', 'blob_refs.blob_id', 'blobs.id')
    .select(['blobs.id', 'blobs.bytes'])
    .where('blob_refs.session_id', '=', sessionId)
    .where('blobs.id', 'in', ids)
    .execute();
  return new Map(
    rows.flatMap(({ id, bytes }) => (bytes === null ? [] : [[blobUrl(id), bytes.toString('base64')] as const])),
  );
}

type Owner = Readonly<{ tenantId: string; sessionId: string }>;

/**
 * Stores the files of a user's message: bytes of data URLs become blobs of the session, references to blobs are
 * checked. An http(s) URL stays, because only the provider fetches it.
 * @throws BatonError `invalid_request` that names the part
 */
export function keepUserFiles(tx: Tx, owner: Owner, content: readonly UserPart[]): Promise<UserPart[]> {
  return keepNamedFiles(tx, owner, content, (index) => `content.${index}`);
}

/**
 * Stores the files of all answers together, so that their blobs are locked in one order.
 * @throws BatonError `invalid_request` that names the part
 */
export async function keepClientFiles<Answer extends CallAnswer>(
  tx: Tx,
  owner: Owner,
  answers: readonly Answer[],
): Promise<Answer[]> {
  const contents = answers.map((answer) => (answer.kind === 'content' ? answer.content : []));
  const names = contents.flatMap((items) => items.map((_, index) => `output.value.${index}`));
  const kept = (await keepNamedFiles(tx, owner, contents.flat(), (at) => names[at] ?? 'output')).values();
  return answers.map((answer, at) => {
    const content = (contents[at] ?? []).map((item) => kept.next().value ?? item);
    return content.length === 0 ? answer : { ...answer, content };
  });
}

/** @param nameOf the caller's name for the part at an index */
async function keepNamedFiles<Item extends UserPart | OutputItem>(
  tx: Tx,
  owner: Owner,
  content: readonly Item[],
  nameOf: (index: number) => string,
): Promise<Item[]> {
  const located = await Promise.all(
    content.map((part, index) => (part.type === 'file' ? locate(tx, owner.tenantId, part, nameOf(index)) : null)),
  );
  const infos = (
    await attachBlobs(
      tx,
      owner,
      located.flatMap((blob) => blob ?? []),
    )
  ).values();
  return content.map((part, index) => {
    const info = located[index] == null ? undefined : infos.next().value;
    if (part.type !== 'file' || info === undefined) return part;
    // Another file with the same bytes may have another type. This file has the type that it came with.
    const mediaType = located[index]?.mediaType ?? info.mediaType;
    return { ...part, mediaType, ...keptAs(info) };
  });
}

/**
 * Stores all files at once that several steps of a transaction would store: two transactions with different orders of
 * steps would deadlock. Invalid files are left to their steps. The caller holds the session's lock.
 */
export async function keepFilesTogether(
  tx: Tx,
  owner: Owner,
  items: readonly (UserPart | OutputItem | Part)[],
): Promise<void> {
  const inItems = items.flatMap((item) =>
    item.type === 'tool' && item.output?.type === 'content' ? item.output.value : [item],
  );
  const files = inItems.flatMap((item) => (item.type === 'file' ? [item] : []));
  if (files.length < 2) return;
  const found = await Promise.all(files.map((file) => locateQuietly(tx, owner.tenantId, file)));
  await attachBlobs(
    tx,
    owner,
    found.flatMap((blob) => blob ?? []),
  );
}

async function locateQuietly(tx: Tx, tenantId: string, file: Named): Promise<NewBlob | BlobHash | null> {
  if (/^https?:/i.test(file.url)) return null;
  const id = parseBlobUrl(file.url);
  if (id !== null) return findBlobHash(tx, tenantId, id);
  const read = readDataUrl(file);
  return read.kind === 'refused' ? null : read.blob;
}

const keptAs = ({ id, sizeBytes }: BlobInfo): Pick<FilePart, 'url' | 'sizeBytes'> => ({ url: blobUrl(id), sizeBytes });

type Located = (NewBlob | BlobHash) & Readonly<{ mediaType: string }>;

/** Null: the file stays a URL. */
async function locate(tx: Tx, tenantId: string, part: Named, name: string): Promise<Located | null> {
  const refuse = (why: string): never => {
    throw new BatonError('invalid_request', why, { field: name });
  };
  if (part.url.startsWith(BLOB_SCHEME)) {
    const id = parseBlobUrl(part.url);
    const known = (id === null ? null : await findBlobHash(tx, tenantId, id)) ?? refuse('there is no such blob');
    const verdict = renameMediaType(part.mediaType, known.mediaType);
    return verdict.kind === 'refused' ? refuse(verdict.why) : { ...known, mediaType: verdict.mediaType };
  }
  if (/^https?:/i.test(part.url)) return URL.canParse(part.url) ? null : refuse('is not a URL');
  const read = readDataUrl(part);
  return read.kind === 'refused' ? refuse(read.why) : read.blob;
}

type Named = Readonly<{ url: string; mediaType: string }>;

const DATA_URL = /^data:([^,;]*)[^,]*?(;base64)?,(.*)$/is;

/** The bytes of a data URL as a blob, with their actual type. */
function readDataUrl({ url, mediaType }: Named): Readonly<{ kind: 'read'; blob: NewBlob }> | RefusedFile {
  const [, named = '', base64, data] = DATA_URL.exec(url) ?? [];
  if (data === undefined) return { kind: 'refused', why: 'must be a data URL, an http(s) URL or a blob' };
  const bytes = base64 === undefined ? decodePercent(data) : decodeBase64(data);
  if (bytes === null) return { kind: 'refused', why: 'is not encoded as it says' };
  if (bytes.length > MAX_BLOB_BYTES) return { kind: 'refused', why: `is larger than ${MAX_BLOB_BYTES} bytes` };
  const verdict = judgeMediaType(mediaType === '' ? named || undefined : mediaType, bytes);
  if (verdict.kind === 'refused') return verdict;
  return { kind: 'read', blob: bytesBlob(newId(), verdict.mediaType, bytes) };
}

/** Accepts base64 and base64url, with white space anywhere except within the padding. */
function decodeBase64(text: string): Buffer | null {
  const padding = text.indexOf('=');
  const isWhole = padding === -1 || ['=', '=='].includes(text.slice(padding).trimEnd());
  return isWhole && !/[^A-Za-z0-9+/_\s=-]/.test(text) ? Buffer.from(text, 'base64') : null;
}

function decodePercent(text: string): Buffer | null {
  try {
    return Buffer.from(decodeURIComponent(text), 'utf8');
  } catch {
    return null;
  }
}

/** Stores the files of an output as blobs of the session. An invalid file becomes a text that says so. */
export async function keepOutputFiles(db: Db | Tx, sessionId: string, output: ToolOutput): Promise<ToolOutput> {
  if (output.type !== 'content') return output;
  const value = await keepAll(db, sessionId, output.value, (text): OutputItem => ({ type: 'text', text }));
  return { type: output.type, value };
}

/** Stores the files of an answer and of its tools' outputs. */
export async function keepAnswerFiles(db: Db | Tx, sessionId: string, parts: readonly Part[]): Promise<Part[]> {
  const kept: Part[] = [];
  for (const part of await keepAll(db, sessionId, parts, (text): Part => ({ type: 'text', text }))) {
    if (part.type !== 'tool' || part.output === undefined) kept.push(part);
    else kept.push({ ...part, output: await keepOutputFiles(db, sessionId, part.output) });
  }
  return kept;
}

async function keepAll<Item extends OutputItem | Part>(
  db: Db | Tx,
  sessionId: string,
  items: readonly Item[],
  notice: (text: string) => Item,
): Promise<Item[]> {
  const read = items.map((item) => (item.type === 'file' && !/^https?:/i.test(item.url) ? readDataUrl(item) : null));
  const blobs = read.flatMap((file) => (file?.kind === 'read' ? [file.blob] : []));
  const infos = (await attachBlobs(db, { sessionId }, blobs)).values();
  return items.map((item, index) => {
    const file = read[index] ?? null;
    if (file === null || item.type !== 'file') return item;
    if (file.kind === 'refused') return notice(`[${item.mediaType}, not shown: it ${file.why}]`);
    const info = infos.next().value;
    return info === undefined ? item : { ...item, mediaType: file.blob.mediaType, ...keptAs(info) };
  });
}
