import { z } from 'zod';
import { MAX_KEPT_OUTPUT_CHARS, MAX_TOOL_OUTPUT_CHARS } from '../domain/tunables.ts';

const positive = z.number().int().positive();

/** Providers take no other names. */
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable');
/** Values of headers, each from the environment: no secret stands in a file or in a session. */
export const headersFromEnv = z.record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header'), variable);
export const variables = z.array(variable);

/** A URL that says where, and no more: credentials belong in the environment. */
export const httpUrl = z
  .url({ protocol: /^https?$/, error: 'a URL with http:// or https://' })
  .refine((url) => !URL.canParse(url) || new URL(url).username === '', 'must hold no credentials');

const httpToolFields = {
  name: z.string().regex(TOOL_NAME, 'letters, digits, - and _, at most 64'),
  description: z.string().min(1),
  url: httpUrl,
  method: z.enum(['POST', 'PUT', 'PATCH']).default('POST'),
  headersFromEnv: headersFromEnv.default({}),
  /** A JSON Schema of an object. */
  inputSchema: z.looseObject({ type: z.literal('object') }),
  /** How long the whole call may take. */
  timeoutMs: positive.max(3_600_000).default(30_000),
  /** Bytes of the answer that are read; the rest is left out. */
  maxResponseBytes: positive.max(16 * 1024 * 1024).default(MAX_KEPT_OUTPUT_CHARS),
  /** The variable with the secret that requests are signed with. */
  signingSecretEnv: variable.optional(),
  /** What the endpoint promises, as in `Tool`. */
  idempotent: z.boolean().default(false),
  readOnly: z.boolean().default(false),
};
const httpToolSchema = z.preprocess(
  (given) => (typeof given === 'string' ? toolAt(given) : given),
  z.strictObject(httpToolFields),
);
export type HttpToolConfig = Readonly<z.infer<typeof httpToolSchema>>;

/** The tool of which only the address is known: named by the end of its path, and it takes any object. */
function toolAt(url: string) {
  const { hostname, pathname } = URL.canParse(url) ? new URL(url) : { hostname: 'http', pathname: '/' };
  const end = pathname.split('/').findLast((segment) => segment !== '') ?? hostname;
  const name = end.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
  const description = `Sends its input as JSON to ${hostname}${pathname} and returns the answer.`;
  return { name, description, url, inputSchema: { type: 'object' } };
}

/** A tool that the client runs: the run waits until the client gives the output. */
const clientToolSchema = z.strictObject({
  name: z.string().regex(TOOL_NAME, 'letters, digits, - and _, at most 64'),
  description: z.string().min(1),
  /** A JSON Schema of an object. */
  inputSchema: z.looseObject({ type: z.literal('object') }).default({ type: 'object' }),
});

export const SERVER_NAME = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'lower-case letters, digits and -, at most 32');

const toolNames = z.array(z.string().min(1));
const KINDS = ['module', 'http', 'mcp', 'client'] as const;

/** Exactly one of its kinds; `include` and `exclude` name tools as their MCP server does. */
const toolSourceObjectSchema = z
  .strictObject({
    /** A TypeScript or JavaScript module, relative to the agents' folder. */
    module: z.string().min(1).optional(),
    /** An endpoint that is sent the input. */
    http: httpToolSchema.optional(),
    /** An MCP server. */
    mcp: SERVER_NAME.optional(),
    client: clientToolSchema.optional(),
    include: toolNames.optional(),
    exclude: toolNames.optional(),
    /** The model finds its tools with `search_tools`, instead of being told of each in every request. */
    deferred: z.boolean().optional(),
  })
  .refine((source) => kindsOf(source).length === 1, `a tool is a name, or one of: ${KINDS.join(', ')}`)
  .refine(
    ({ mcp, include, exclude, deferred }) =>
      mcp !== undefined || (include === undefined && exclude === undefined && deferred === undefined),
    'include, exclude and deferred are about mcp',
  );

const kindsOf = (source: object) => KINDS.filter((kind) => kind in source);

/** Where an agent's tools come from: the name of a tool or of a tool set, a module, an endpoint or an MCP server. */
export const toolSourceSchema = z.union([z.string().min(1), toolSourceObjectSchema]);
export type ToolSource = Readonly<z.infer<typeof toolSourceSchema>> | string;
export type McpSource = Readonly<{
  mcp: string;
  include?: readonly string[];
  exclude?: readonly string[];
  deferred?: boolean;
}>;

/** The source as errors name it. */
export function toolSourceLabel(source: ToolSource): string {
  if (typeof source === 'string') return source;
  if (source.http !== undefined) return `http:${source.http.name}`;
  if (source.client !== undefined) return `client:${source.client.name}`;
  return source.mcp === undefined ? `module:${source.module}` : `mcp:${source.mcp}`;
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
