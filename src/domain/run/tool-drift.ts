import { z } from 'zod';

export const driftChangeSchema = z.enum(['changed', 'gone']);

/** A tool that its MCP server does not offer any more as the session has pinned it. */
export type ToolDrift = Readonly<{
  server: string;
  /** As the server names it. */
  tool: string;
  change: z.infer<typeof driftChangeSchema>;
  /** Of the definitions that the session has of the server's tools: what the tool was compared with. */
  pinnedHash: string;
  /** Of the definition that is offered now; null: none is. */
  offeredHash: string | null;
}>;

/** What a server's tools, by their own names, have become for a session that took them anew. */
export const toolChangesSchema = z.strictObject({
  server: z.string(),
  added: z.array(z.string()),
  changed: z.array(z.string()),
  removed: z.array(z.string()),
});
export type ToolChanges = Readonly<z.infer<typeof toolChangesSchema>>;
