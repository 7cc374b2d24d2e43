import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ToolChanges } from '../domain/run/tool-drift.ts';
import { jsonSchema } from '../domain/transcript/message.ts';
import type { McpSource } from './tool-sources.ts';

/** One tool as its MCP server described it. */
export const pinnedToolSchema = z.strictObject({
  /** By which the server knows it. */
  name: z.string(),
  description: z.string(),
  inputSchema: z.object({ type: z.literal('object') }).catchall(jsonSchema),
  readOnlyHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
});
export type PinnedTool = Readonly<z.infer<typeof pinnedToolSchema>>;

/** What each MCP server offered when the session was created: what the session keeps to. */
export const pinnedToolsSchema = z.record(
  z.string(),
  z.strictObject({ hash: z.string(), tools: z.array(pinnedToolSchema) }),
);
export type PinnedTools = Readonly<z.infer<typeof pinnedToolsSchema>>;

/** Changes with anything that the model is told of the tools, not with their order or that of their keys. Pure. */
export function hashOfTools(tools: readonly PinnedTool[]): string {
  const sorted = tools.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted, withSortedKeys)).digest('hex').slice(0, 16);
}

/** What the definitions take of a session's row and of every request to its model, about. Pure. */
export const definitionBytes = (tools: readonly PinnedTool[]): number => Buffer.byteLength(JSON.stringify(tools));

function withSortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What differs, of each server where anything does. Pure. */
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

/** Whether a source takes a tool of its server. Pure. */
export function isIncluded({ include, exclude }: McpSource, { name }: Pick<PinnedTool, 'name'>): boolean {
  return (include === undefined || include.includes(name)) && exclude?.includes(name) !== true;
}

const MAX_NAME_CHARS = 64;

/** How the model knows the tools of a server: two underscores tell them from all others. */
export const namePrefix = (server: string): string => `${server}__`;

/**
 * The name by which the model calls a server's tool. What providers do not take in a name gives way, and then a piece
 * of hash keeps apart what would be the same. Pure.
 */
export function nameForModel(server: string, tool: string): string {
  const name = namePrefix(server) + tool.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  if (name.length <= MAX_NAME_CHARS && name === namePrefix(server) + tool) return name;
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, 8);
  return `${name.slice(0, MAX_NAME_CHARS - hash.length - 1)}_${hash}`;
}
