import type { Json, ToolPart, ViewMessage } from '../../transcript/message.ts';

/** A file or other resource that the session's tools edited or read, judged by the inputs of their calls. */
export type TouchedResource = Readonly<{ path: string; access: 'edited' | 'read' }>;

/** Keys of inputs that name a file or a resource: `path`, `file_path`, `targetFile`, `urls` … */
const RESOURCE_KEY = /(^|_)(path|paths|file|files|filename|filenames|filepath|uri|uris|url|urls|href|notebook)$/;

/** Words in a tool's name that mean a change. A reading `command` overrides them, for editors with many commands. */
const EDITING_WORDS: ReadonlySet<string> = new Set([
  'add',
  'append',
  'apply',
  'copy',
  'create',
  'delete',
  'edit',
  'editor',
  'insert',
  'move',
  'patch',
  'put',
  'remove',
  'rename',
  'replace',
  'save',
  'undo',
  'update',
  'upload',
  'write',
]);
const READING_COMMANDS: ReadonlySet<string> = new Set(['view', 'read', 'show', 'open', 'list', 'cat']);

/** A longer value is content, not a name. */
const MAX_PATH_CHARS = 1_000;
const MAX_INPUT_DEPTH = 4;

const PATCH_HEADER = /^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b\/)?)(\S.*)$/gm;
const PATCH_START = /^(?:\*\*\* Begin Patch|--- )/m;

/**
 * Lists the resources that calls touched: each once, newest first, as edited if any call edited it. Reads only the
 * inputs of calls: a file that a shell command touches by itself is not seen.
 */
export function touchedResources(messages: readonly Pick<ViewMessage, 'parts'>[]): TouchedResource[] {
  const newestFirst = messages.flatMap(({ parts }) => parts.flatMap(touchedByPart)).reverse();
  return mergeResources(newestFirst, []);
}

/** Merges two lists: `newer` comes first, and edited wins over read. */
export function mergeResources(
  newer: readonly TouchedResource[],
  older: readonly TouchedResource[],
): TouchedResource[] {
  const merged = new Map<string, TouchedResource>();
  for (const resource of [...newer, ...older]) {
    const earlier = merged.get(resource.path);
    if (earlier === undefined) merged.set(resource.path, resource);
    else if (resource.access === 'edited') merged.set(resource.path, { ...earlier, access: 'edited' });
  }
  return [...merged.values()];
}

function touchedByPart(part: ViewMessage['parts'][number]): TouchedResource[] {
  // A denied call did nothing.
  if (part.type !== 'tool' || part.state === 'denied') return [];
  const access = isEditing(part) ? 'edited' : 'read';
  return namesIn(part.input, 0).map((path): TouchedResource => ({ path, access }));
}

function isEditing({ toolName, input }: ToolPart): boolean {
  const command = typeof input === 'object' && input !== null && !Array.isArray(input) ? input['command'] : undefined;
  if (typeof command === 'string' && READING_COMMANDS.has(command.toLowerCase())) return false;
  return toSnakeCase(toolName)
    .split(/[^a-z0-9]+/)
    .some((word) => EDITING_WORDS.has(word));
}

function namesIn(input: Json, depth: number): string[] {
  if (typeof input === 'string') return namesInPatch(input);
  if (typeof input !== 'object' || input === null || depth > MAX_INPUT_DEPTH) return [];
  if (Array.isArray(input)) return input.flatMap((item) => (typeof item === 'string' ? [] : namesIn(item, depth + 1)));
  return Object.entries(input).flatMap(([key, value]) => {
    if (!RESOURCE_KEY.test(toSnakeCase(key))) return namesIn(value, depth + 1);
    const values = Array.isArray(value) ? value : [value];
    return values.flatMap((item) => (typeof item === 'string' ? toName(item) : namesIn(item, depth + 1)));
  });
}

function namesInPatch(text: string): string[] {
  if (!PATCH_START.test(text)) return [];
  return [...text.matchAll(PATCH_HEADER)].flatMap(([, name]) => toName((name ?? '').split('\t', 1)[0] ?? ''));
}

function toName(value: string): string[] {
  const name = value.trim();
  const isName = name !== '' && name !== '.' && name !== '/dev/null' && name.length <= MAX_PATH_CHARS;
  return isName && !/[\n\r]/.test(name) && !name.startsWith('data:') ? [name] : [];
}

const toSnakeCase = (name: string): string => name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();

/** Bounds of the list in the view. Both hold. */
export type ListBounds = Readonly<{ entries: number; chars: number }>;

const OPENING = '<touched_resources';
const CLOSING = '</touched_resources>';

/** Writes the list for `parseResources`; '' if it is empty. Without room for all, edited resources go first. */
export function formatResources(resources: readonly TouchedResource[], bounds: ListBounds): string {
  const kept = withinBounds(resources, bounds);
  if (kept.length === 0) return '';
  const left = resources.length - kept.length;
  const lines = kept.map(({ path, access }) => `${access} ${quoted(path)}`);
  const more = left === 0 ? '' : `\n(${left} more, touched longer ago)`;
  return `${OPENING}>\nNewest first.\n${lines.join('\n')}${more}\n${CLOSING}`;
}

function withinBounds(resources: readonly TouchedResource[], bounds: ListBounds): TouchedResource[] {
  let chars = 0;
  const chosen = new Set<TouchedResource>();
  const byWorth = [
    ...resources.filter(({ access }) => access === 'edited'),
    ...resources.filter(({ access }) => access === 'read'),
  ];
  for (const resource of byWorth) {
    chars += resource.path.length + resource.access.length + 2;
    if (chosen.size >= bounds.entries || chars > bounds.chars) break;
    chosen.add(resource);
  }
  return resources.filter((resource) => chosen.has(resource));
}

/** Parses the last list in a text. */
export function parseResources(text: string): TouchedResource[] {
  const start = text.lastIndexOf(OPENING);
  if (start < 0) return [];
  return [...text.slice(start).matchAll(/^(edited|read) (.+)$/gm)].flatMap(([, access, path]) =>
    path === undefined ? [] : [{ path: unquoted(path), access: access === 'edited' ? 'edited' : 'read' }],
  );
}

/** Writes a name as a JSON string if it could be taken for something else. */
export const quoted = (path: string): string => (/["<>\\\p{Cc}\u2028\u2029]/u.test(path) ? jsonText(path) : path);

const jsonText = (path: string): string => JSON.stringify(path).replaceAll('<', '\\u003c').replaceAll('>', '\\u003e');

export function unquoted(path: string): string {
  if (!path.startsWith('"')) return path;
  try {
    return String(JSON.parse(path));
  } catch {
    return path;
  }
}
