import { registerHooks } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { TOOL_NAME } from '../agents/tool-sources.ts';
import { BatonError } from '../domain/errors.ts';
import { issueWords } from '../domain/issue-words.ts';
import { toObjectSchema } from '../domain/object-schema.ts';
import type { ToolModuleContext } from './define-tool.ts';
import type { Tool } from './tool.ts';
import { isInside, realPathOf } from './workspace/workspace-path.ts';

/**
 * The tools that a module exports, as its default export or under any names: one tool, a list, or a function of the
 * context that returns either.
 * @param key of the agent that names the module, for errors
 * @throws BatonError `config_invalid` with the key
 */
export type LoadToolModule = (module: string, agent: string, key: string) => Promise<readonly Tool[]>;

const isBooleanOrFunction = (value: unknown): boolean => typeof value === 'boolean' || isFunction(value);

const isFunction = (value: unknown): boolean => typeof value === 'function';

/** One of them is in every JSON Schema of an object that somebody wrote. */
const KEYWORDS = ['type', '$ref', 'properties', 'anyOf', 'oneOf', 'allOf'];

/**
 * A schema of zod 4, or a JSON Schema of an object. It is neither a schema of another library, which has fields with the
 * same names, nor an object of schemas by name.
 */
export function isInputSchema(value: unknown): boolean {
  if (value instanceof z.ZodType) return true;
  if (typeof value !== 'object' || value === null || '_def' in value || '~standard' in value) return false;
  return KEYWORDS.some((key) => key in value) && 'schema' in toObjectSchema(value);
}

/** Schemas of zod 4 have `_zod`. */
const isOfOldZod = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && '_def' in value && 'safeParse' in value && !('_zod' in value);

export const moduleToolSchema = z.looseObject({
  name: z.string().regex(TOOL_NAME, 'letters, digits, - and _, at most 64'),
  description: z.string().min(1),
  inputSchema: z.custom<Tool['inputSchema']>(isInputSchema, {
    error: ({ input }) =>
      isOfOldZod(input)
        ? 'is a schema of zod 3: take zod 4, or leave zod out of the package, and it is the one of Baton'
        : 'a zod schema, or a JSON Schema of an object',
  }),
  execute: z.custom<Tool['execute']>(isFunction, 'a function'),
  idempotent: z.boolean().optional(),
  readOnly: z.boolean().optional(),
  needsApproval: z.custom<Tool['needsApproval']>(isBooleanOrFunction, 'true, false or a function').optional(),
  onUnknown: z.enum(['report', 'ask']).optional(),
  toModelOutput: z.custom<Tool['toModelOutput']>(isFunction, 'a function').optional(),
  timeoutMs: z.number().int().positive().optional(),
  maxOutputChars: z.number().int().positive().optional(),
});

/** `@baton-run/server/tools` resolves to this code for every module of tools, wherever it lies. */
const TOOLS_MODULE = '@baton-run/server/tools';
const TOOLS_URL = new URL(`define-tool${path.extname(import.meta.url)}`, import.meta.url).href;

let knowsTools = false;

function makeToolsKnown(): void {
  if (knowsTools) return;
  knowsTools = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === TOOLS_MODULE) return { url: TOOLS_URL, shortCircuit: true };
      try {
        return next(specifier, context);
      } catch (error) {
        // A folder of agents need not be a package: `zod` then resolves to Baton's.
        if (!isZod(specifier) || context.parentURL === import.meta.url) throw error;
        return next(specifier, { ...context, parentURL: import.meta.url });
      }
    },
  });
}

const isZod = (specifier: string): boolean => specifier === 'zod' || specifier.startsWith('zod/');

/**
 * Loads modules by path with Node's own import. A module is read once per process, so a change needs a restart; a
 * module that failed to load is read again at the next request.
 * @param folder base of relative paths
 */
export function createModuleLoader(folder: string, workspaceDir: string): LoadToolModule {
  makeToolsKnown();
  return async (module, agent, key) => {
    const file = path.resolve(folder, module);
    const context: ToolModuleContext = { agent, workspaceDir: path.resolve(workspaceDir) };
    await refuseInWorkspace(file, context.workspaceDir, key);
    const exported = await importModule(file, key);
    const candidates = 'default' in exported ? [exported['default']] : Object.values(exported);
    const tools: Tool[] = [];
    for (const value of candidates) tools.push(...(await toTools(value, context, `${key}: ${file}`)));
    if (tools.length === 0) throw new BatonError('config_invalid', `${key}: ${file} exports no tool`);
    return tools;
  };
}

/** A tool that writes into the workspace could otherwise change code that this process runs. */
export async function refuseInWorkspace(file: string, workspaceDir: string, key: string): Promise<void> {
  const [real, workspace] = await Promise.all([realPathOf(file), realPathOf(workspaceDir)]);
  if (!isInside(workspace, real)) return;
  throw new BatonError('config_invalid', `${key}: ${file} lies in the workspace, where tools could change its code`);
}

/** Failed loads of a module, by its file. A loaded module keeps its address. */
const failures = new Map<string, number>();

/** The exports of a module. @throws BatonError `config_invalid` with the key */
export async function importModule(file: string, key: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const url = pathToFileURL(file);
    const tries = failures.get(file) ?? 0;
    // Node caches a failed import, so each retry uses another address.
    if (tries > 0) url.searchParams.set('try', String(tries));
    return await import(url.href);
  } catch (cause) {
    failures.set(file, (failures.get(file) ?? 0) + 1);
    const why = cause instanceof Error ? `: ${cause.message}${adviceOn(cause)}` : '';
    throw new BatonError('config_invalid', `${key}: ${file} cannot be loaded${why}`, { cause });
  }
}

/** `npm init` writes a package.json that makes `.ts` and `.js` CommonJS. */
function adviceOn({ name, message }: Error): string {
  const isTakenForCommonJs =
    name === 'SyntaxError' && /import statement outside a module|Unexpected token 'export'/.test(message);
  return isTakenForCommonJs ? '; give the file the ending .mts or .mjs, or its package.json "type": "module"' : '';
}

async function toTools(value: unknown, context: ToolModuleContext, where: string): Promise<Tool[]> {
  const created: unknown = typeof value === 'function' ? await make(value, context, where) : value;
  return (Array.isArray(created) ? created : [created]).map((tool: unknown) => {
    const parsed = moduleToolSchema.safeParse(tool);
    // Not a copy: the tool's functions may use `this`.
    if (parsed.success) return tool as Tool;
    const [issue] = parsed.error.issues;
    const problem =
      issue === undefined ? 'not a tool' : `${issue.path.join('.') || 'not a tool'}: ${issueWords(issue)}`;
    throw new BatonError('config_invalid', `${where}: ${nameOf(tool)}${problem}`, { cause: parsed.error });
  });
}

/** Names the tool in the error, because one module may have many. */
function nameOf(tool: unknown): string {
  const hasName = typeof tool === 'object' && tool !== null && 'name' in tool && typeof tool.name === 'string';
  return hasName ? `tool ${JSON.stringify(tool.name)}: ` : '';
}

async function make(factory: unknown, context: ToolModuleContext, where: string): Promise<unknown> {
  try {
    return await (factory as (context: ToolModuleContext) => unknown)(context);
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '';
    throw new BatonError('config_invalid', `${where}: its function failed${why}`, { cause });
  }
}
