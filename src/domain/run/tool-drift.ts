import { z } from 'zod';

export const driftChangeSchema = z.enum(['changed', 'gone']);

/** A tool whose MCP server has another definition than the session has pinned, or none. */
export type ToolDrift = Readonly<{
  server: string;
  /** The server's name for it. */
  tool: string;
  change: z.infer<typeof driftChangeSchema>;
  /** The hash of all definitions that the session has pinned of this server. */
  pinnedHash: string;
  /** The hash of the definition that is offered now; null: none. */
  offeredHash: string | null;
}>;

/** The changes of a server's tools by a repin, by the server's names. */
export const toolChangesSchema = z.strictObject({
  server: z.string(),
  added: z.array(z.string()),
  changed: z.array(z.string()),
  removed: z.array(z.string()),
});
export type ToolChanges = Readonly<z.infer<typeof toolChangesSchema>>;
