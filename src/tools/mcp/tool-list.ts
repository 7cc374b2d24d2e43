import { definitionBytes, type PinnedTool, pinnedToolSchema } from '../../agents/pinned-tools.ts';
import { isWrittenNumber, objectOf } from '../../domain/exact-json.ts';
import { isWithinJsonDepth } from '../../domain/json-bounds.ts';
import { toObjectSchema } from '../../domain/object-schema.ts';
import { MAX_SERVER_DEFINITION_BYTES } from '../../domain/tunables.ts';
import { headerProblem } from './param-headers.ts';

/** A tool of a server that no agent is offered. */
export type LeftOutTool = Readonly<{ tool: string; reason: string }>;
type ListedTool = Readonly<{ kind: 'tool'; tool: PinnedTool }> | Readonly<{ kind: 'left-out'; leftOut: LeftOutTool }>;
type Fields = Readonly<Record<string, unknown>>;

const MAX_NAME_CHARS = 500;

/**
 * A tool as a server lists it, with null as absent and what Baton does not use left aside. A tool that cannot be offered
 * has the reason. Pure.
 * @param takesTasks the server takes calls as tasks
 */
export function readListedTool(listed: unknown, takesTasks: boolean): ListedTool {
  const fields = isFields(listed) ? listed : {};
  const { name } = fields;
  const leaveOut = (reason: string): ListedTool => {
    const label = typeof name === 'string' && name !== '' ? name.slice(0, MAX_NAME_CHARS) : 'unnamed';
    return { kind: 'left-out', leftOut: { tool: label, reason } };
  };
  if (!isFields(listed)) return leaveOut('it is no object');
  if (typeof name !== 'string' || name === '') return leaveOut('it has no name');
  if (name.length > MAX_NAME_CHARS) return leaveOut(`its name has more than ${MAX_NAME_CHARS} characters`);
  const isTask = taskSupportOf(fields) === 'required';
  if (isTask && !takesTasks) return leaveOut('it has to be called as a task, and the server does not take tasks');
  const schema = readInputSchema(fields['inputSchema']);
  if (typeof schema === 'string') return leaveOut(schema);
  const headers = headerProblem(schema);
  if (headers !== null) return leaveOut(`inputSchema: ${headers}`);
  const { data: tool } = pinnedToolSchema.safeParse({
    name,
    description: descriptionOf(fields) ?? name,
    inputSchema: schema,
    ...hintsOf(fields),
    ...(isTask && { taskSupport: 'required' }),
  });
  if (tool === undefined) return leaveOut('inputSchema: is no JSON Schema');
  if (definitionBytes([tool]) > MAX_SERVER_DEFINITION_BYTES) {
    return leaveOut(`its definition has more than ${MAX_SERVER_DEFINITION_BYTES} bytes`);
  }
  return { kind: 'tool', tool };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isWrittenNumber(value);

const inside = (fields: Fields, key: string): Fields => {
  const value = fields[key];
  return isFields(value) ? value : {};
};

const taskSupportOf = (fields: Fields): unknown => inside(fields, 'execution')['taskSupport'];

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

function descriptionOf(fields: Fields): string | undefined {
  return [fields['description'], fields['title'], inside(fields, 'annotations')['title']].find(isText);
}

function hintsOf(fields: Fields): Pick<PinnedTool, 'readOnlyHint' | 'idempotentHint'> {
  const { readOnlyHint, idempotentHint } = inside(fields, 'annotations');
  return {
    ...(typeof readOnlyHint === 'boolean' && { readOnlyHint }),
    ...(typeof idempotentHint === 'boolean' && { idempotentHint }),
  };
}

/** The schema of an object, or why there is none. */
function readInputSchema(schema: unknown): Fields | string {
  if (schema === undefined || schema === null || schema === true) return { type: 'object' };
  if (!isFields(schema)) return 'inputSchema: is no object';
  if (!isWithinJsonDepth(schema)) return 'inputSchema: has too many levels';
  const read = toObjectSchema(withoutNullKeywords(schema));
  if ('schema' in read) return read.schema;
  const { path, message } = read.problem;
  return `${['inputSchema', ...path].join('.')}: ${message}`;
}

/** Keywords whose values are data. */
const OF_DATA: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'example', 'examples']);
/** Keywords whose values are schemas by name: a name that has none takes any value. */
const BY_NAME: ReadonlySet<string> = new Set(['properties', 'patternProperties', '$defs', 'definitions']);

function withoutNullKeywords(schema: Fields): Fields {
  return mapFields(schema, ([key, value]) => {
    if (OF_DATA.has(key)) return [key, value];
    if (value === null) return null;
    if (BY_NAME.has(key) && isFields(value)) {
      return [key, mapFields(value, ([name, inner]) => [name, inner === null ? {} : readNested(inner)])];
    }
    return [key, readNested(value)];
  });
}

function readNested(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readNested);
  return isFields(value) ? withoutNullKeywords(value) : value;
}

function mapFields(fields: Fields, map: (entry: [string, unknown]) => [string, unknown] | null): Fields {
  return objectOf(Object.entries(fields).flatMap((entry) => [map(entry)].filter((mapped) => mapped !== null)));
}
