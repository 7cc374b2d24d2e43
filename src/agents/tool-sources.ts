import { z } from 'zod';
import { MAX_TOOL_OUTPUT_CHARS } from '../domain/tunables.ts';

const positive = z.number().int().positive();

/** Where an agent's tools come from: the name of a tool or of a tool set, or exactly one of these keys. */
const toolSourceObjectSchema = z
  .strictObject({
    /** A TypeScript or JavaScript module, relative to the agents' folder. */
    module: z.string().min(1).optional(),
  })
  .refine((source) => Object.keys(source).length > 0, 'a tool is a name, or one of: module');

export const toolSourceSchema = z.union([z.string().min(1), toolSourceObjectSchema]);
export type ToolSource = Readonly<z.infer<typeof toolSourceSchema>> | string;

/** The source as lists show it. */
export function toolSourceLabel(source: ToolSource): string {
  if (typeof source === 'string') return source;
  return `module:${source.module}`;
}

/** Which limits a tool has of its own, beside `maxOutputChars`. */
const OWN_LIMITS: Readonly<Record<string, readonly string[]>> = {
  read_file: ['maxLines', 'maxLineLength'],
  grep: ['maxMatches'],
};

const toolLimitSchema = z.strictObject({
  /** Characters of a result that the model is shown; the rest is paged through with `read_tool_output`. */
  maxOutputChars: z.number().int().min(500).max(MAX_TOOL_OUTPUT_CHARS).optional(),
  /** Lines that one `read_file` returns, and characters of a line. */
  maxLines: positive.max(100_000).optional(),
  maxLineLength: positive.max(MAX_TOOL_OUTPUT_CHARS).optional(),
  /** Matches that one `grep` returns. */
  maxMatches: positive.max(100_000).optional(),
});
type ToolLimit = Readonly<z.infer<typeof toolLimitSchema>>;

/** Limits by the name of the tool. */
export const toolLimitsSchema = z.record(z.string().min(1), toolLimitSchema).superRefine((limits, ctx) => {
  for (const [tool, limit] of Object.entries(limits)) {
    for (const key of Object.keys(limit)) {
      if (key === 'maxOutputChars' || OWN_LIMITS[tool]?.includes(key) === true) continue;
      ctx.addIssue({ code: 'custom', path: [tool, key], message: `${tool} has no such limit` });
    }
  }
});
export type ToolLimits = Readonly<Record<string, ToolLimit>>;
