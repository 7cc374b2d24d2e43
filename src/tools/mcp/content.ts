/** A content block with what Baton uses of it. A resource has `text` or `blob`. */
export type Content =
  | Readonly<{ type: 'text'; text: string }>
  | Readonly<{ type: 'image' | 'audio'; data: string; mimeType: string | undefined }>
  | Readonly<{ type: 'resource_link'; uri: string } & LinkWords>
  | Readonly<{
      type: 'resource';
      uri: string | undefined;
      text: string | undefined;
      blob: string | undefined;
      mimeType: string | undefined;
    }>;
type LinkWords = Record<'name' | 'mimeType' | 'description', string | undefined>;
type Fields = Readonly<Record<string, unknown>>;

const MAX_NAME_CHARS = 100;

/**
 * Reads a content block: null is absent, and what Baton does not use may have any form. One that cannot be read becomes
 * a text with its name and the problem. Pure.
 */
export function toContent(piece: unknown): Content {
  if (typeof piece === 'string') return { type: 'text', text: piece };
  if (!isFields(piece)) return malformed('content', 'is not an object');
  const { uri, text } = piece;
  const [name, mimeType, description] = ['name', 'mimeType', 'description'].map((key) => wordOf(piece[key]));
  const type = wordOf(piece['type']) ?? (text === undefined ? '' : 'text');
  const label = mimeType ?? (type === '' ? 'content' : type);
  switch (type) {
    case 'text':
      if (text === undefined || text === null) return malformed(label, 'text: is missing');
      return { type, text: typeof text === 'string' ? text : JSON.stringify(text) };
    case 'image':
    case 'audio': {
      const read = readBytes(piece['data']);
      return 'problem' in read ? malformed(label, `data: ${read.problem}`) : { type, data: read.base64, mimeType };
    }
    case 'resource_link':
      if (typeof uri !== 'string') return malformed(label, 'uri: is missing');
      return { type, uri, name: name ?? wordOf(piece['title']), mimeType, description };
    case 'resource':
      return toResource(piece['resource']);
    default:
      return malformed(label, 'type: is not a kind of content');
  }
}

function toResource(resource: unknown): Content {
  if (!isFields(resource)) return malformed('resource', 'resource: is not an object');
  const [uri, mimeType] = [wordOf(resource['uri']), wordOf(resource['mimeType'])];
  const shown = { type: 'resource' as const, uri, mimeType };
  const { text } = resource;
  if (typeof text === 'string') return { ...shown, text, blob: undefined };
  const read = readBytes(resource['blob']);
  if ('problem' in read) return malformed(mimeType ?? 'resource', `resource.blob: ${read.problem}`);
  return { ...shown, text: undefined, blob: read.base64 };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const wordOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Base64, also of a data URL and of the alphabet for URLs. */
function readBytes(data: unknown): Readonly<{ base64: string }> | Readonly<{ problem: string }> {
  if (data === undefined || data === null) return { problem: 'is missing' };
  if (typeof data !== 'string') return { problem: 'is no text' };
  const base64 = data
    .replace(/^data:[^,]{0,200};base64,/i, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
  if (base64.trim() === '') return { problem: 'is empty' };
  try {
    atob(base64);
    return { base64 };
  } catch {
    return { problem: 'Invalid Base64 string' };
  }
}

const malformed = (name: string, why: string): Content => ({
  type: 'text',
  text: `[malformed ${name.slice(0, MAX_NAME_CHARS)}, not shown: ${why}]`,
});
