import { isWrittenNumber } from '../../domain/exact-json.ts';

/**
 * Arguments that a server wants in headers, too, so that proxies can route a call without reading it. Pure.
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
 */
const KEYWORD = 'x-mcp-header';
const PREFIX = 'Mcp-Param-';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);
/** Keywords whose values are data. */
const OF_DATA: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'example', 'examples']);
type Fields = Readonly<Record<string, unknown>>;
type Declared = Readonly<{ path: readonly string[]; header: string }>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isWrittenNumber(value);

/** The headers that a schema declares, or why it may not. */
function declaredHeaders(schema: unknown): readonly Declared[] | string {
  const declared: Declared[] = [];
  for (const { node, path } of nodesOf(schema, [])) {
    if (!(KEYWORD in node)) continue;
    const problem = problemOf(node, path, declared);
    if (problem !== null) return `${KEYWORD} ${problem}`;
    declared.push({ path: path ?? [], header: String(node[KEYWORD]) });
  }
  return declared;
}

/** All objects of a schema. `path`: the properties that lead to it; null: it is not always at one place. */
function* nodesOf(
  node: unknown,
  path: readonly string[] | null,
): Generator<Readonly<{ node: Fields; path: readonly string[] | null }>> {
  if (Array.isArray(node)) for (const item of node) yield* nodesOf(item, null);
  if (!isFields(node)) return;
  yield { node, path };
  for (const [key, value] of Object.entries(node)) {
    if (OF_DATA.has(key)) continue;
    const isByName = key === 'properties' && isFields(value);
    if (!isByName) yield* nodesOf(value, null);
    else for (const [name, inner] of Object.entries(value)) yield* nodesOf(inner, path && [...path, name]);
  }
}

function problemOf(node: Fields, path: readonly string[] | null, earlier: readonly Declared[]): string | null {
  const header = node[KEYWORD];
  if (path === null || path.length === 0) return 'is only for properties that are always at one place';
  if (typeof header !== 'string' || !TOKEN.test(header)) return 'is no name of a header';
  if (!TYPES.has(node['type'])) return 'is only for strings, integers and booleans';
  return earlier.some((other) => other.header.toLowerCase() === header.toLowerCase()) ? 'names a header twice' : null;
}

/** Why a tool's headers cannot be sent; null: they can. */
export function headerProblem(schema: unknown): string | null {
  const declared = declaredHeaders(schema);
  return typeof declared === 'string' ? declared : null;
}

/** The headers of a call. What has no value, or one that fits no header, is left out. */
export function paramHeaders(schema: unknown, input: unknown): Record<string, string> {
  const declared = declaredHeaders(schema);
  if (typeof declared === 'string') return {};
  const headers = declared.flatMap(({ path, header }) => {
    const text = textOf(path.reduce<unknown>((node, key) => (isFields(node) ? node[key] : undefined), input));
    return text === null ? [] : [[PREFIX + header, encode(text)]];
  });
  return Object.fromEntries(headers);
}

function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  const isPlain = typeof value === 'boolean' || typeof value === 'number' || isWrittenNumber(value);
  return isPlain ? JSON.stringify(value) : null;
}

/** As it is where a header can hold it, otherwise as base64. */
function encode(text: string): string {
  const isPlain = /^[\t\x20-\x7e]+$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;
}
