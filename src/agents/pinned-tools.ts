import { createHash } from 'node:crypto';
import { z } from 'zod';
import { withPlainNumbers } from '../domain/exact-json.ts';
import type { ToolChanges } from '../domain/run/tool-drift.ts';
import { type McpSource, objectSchema } from './tool-sources.ts';

export const pinnedToolSchema = z.strictObject({
  /** The server's name for it. */
  name: z.string(),
  description: z.string(),
  inputSchema: objectSchema,
  readOnlyHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  /** `required`: it has to be called as a task. */
  taskSupport: z.literal('required').optional(),
});
export type PinnedTool = Readonly<z.infer<typeof pinnedToolSchema>>;

/** The tools of each MCP server when the session was created or repinned. The session keeps to these. */
export const pinnedToolsSchema = z.record(
  z.string(),
  z.strictObject({ hash: z.string(), tools: z.array(pinnedToolSchema) }),
);
export type PinnedTools = Readonly<z.infer<typeof pinnedToolsSchema>>;

/** Changes with anything that the model is told of the tools, but not with the order of tools or keys. Pure. */
export function hashOfTools(tools: readonly PinnedTool[]): string {
  const sorted = tools.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify(withPlainNumbers(sorted), withSortedKeys))
    .digest('hex')
    .slice(0, 16);
}

/** The approximate size of the definitions in a session's row and in every request to its model. Pure. */
export const definitionBytes = (tools: readonly PinnedTool[]): number => Buffer.byteLength(JSON.stringify(tools));

function withSortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The changes per server; unchanged servers are left out. Pure. */
export function changesOfTools(before: PinnedTools, after: PinnedTools): ToolChanges[] {
  const servers = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return servers.flatMap((server) => {
    const [old, now] = [before, after].map((pins) => hashesOf(pins[server]?.tools ?? []));
    if (old === undefined || now === undefined) return [];
    const added = [...now.keys()].filter((name) => !old.has(name));
    const removed = [...old.keys()].filter((name) => !now.has(name));
    const changed = [...now].flatMap(([name, hash]) => (old.has(name) && old.get(name) !== hash ? [name] : []));
    return added.length + removed.length + changed.length === 0 ? [] : [{ server, added, changed, removed }];
  });
}

const hashesOf = (tools: readonly PinnedTool[]): Map<string, string> =>
  new Map(tools.map((tool) => [tool.name, hashOfTools([tool])]));

/** Whether `include` and `exclude` of the source admit the tool. Pure. */
export function isIncluded({ include, exclude }: McpSource, { name }: Pick<PinnedTool, 'name'>): boolean {
  return (include === undefined || include.includes(name)) && exclude?.includes(name) !== true;
}

const MAX_NAME_CHARS = 64;

/** The prefix of the model's names for the server's tools. Only MCP tools have two underscores. */
export const namePrefix = (server: string): string => `${server}__`;

/** Cleans and shortens a name that providers would refuse, and adds a hash that keeps it unique. Pure. */
export function nameForModel(server: string, tool: string): string {
  const name = namePrefix(server) + tool.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  if (name.length <= MAX_NAME_CHARS && name === namePrefix(server) + tool) return name;
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, 8);
  return `${name.slice(0, MAX_NAME_CHARS - hash.length - 1)}_${hash}`;
}
