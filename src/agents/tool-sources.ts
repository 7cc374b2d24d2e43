import { z } from 'zod';
import { givenSchema, schemaBy, toObjectSchema } from '../domain/object-schema.ts';
import { CHILD_MODES } from '../domain/run/child.ts';
import { runLimitsSchema } from '../domain/run/run-limits.ts';
import { MAX_KEPT_OUTPUT_CHARS, MAX_RESULT_BYTES, MAX_TOOL_OUTPUT_CHARS } from '../domain/tunables.ts';

const positive = z.number().int().positive();

/** Prefix of the tools that a program gives to its agents in code. Sessions keep their names as `code:agent/tool`. */
export const CODE_PREFIX = 'code:';

/** The names that providers accept. */
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable');
/** Names of variables by header, so that no secret stands in a file or in a session. */
export const headersFromEnv = z.record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header'), variable);
export const variables = z.array(variable);

/** A URL without credentials, which belong in the environment. */
export const httpUrl = z
  .url({ protocol: /^https?$/, error: 'a URL with http:// or https://' })
  .refine((url) => !URL.canParse(url) || new URL(url).username === '', 'must hold no credentials');

/** A JSON Schema of an object. */
export const objectSchema = givenSchema.transform(schemaBy(toObjectSchema));

const httpToolFields = {
  name: z.string().regex(TOOL_NAME, 'letters, digits, - and _, at most 64'),
  description: z.string().min(1),
  url: httpUrl,
  method: z.enum(['POST', 'PUT', 'PATCH']).default('POST'),
  headersFromEnv: headersFromEnv.default({}),
  /** A JSON Schema of an object. */
  inputSchema: objectSchema,
  /** Time limit of the whole call. */
  timeoutMs: positive.max(3_600_000).default(30_000),
  /** Most bytes of the answer that are read; the rest is dropped. */
  maxResponseBytes: positive.max(MAX_RESULT_BYTES).default(MAX_KEPT_OUTPUT_CHARS),
  /** The variable with the secret that signs requests. */
  signingSecretEnv: variable.optional(),
  /** Promises of the endpoint, as in `Tool`. */
  idempotent: z.boolean().default(false),
  readOnly: z.boolean().default(false),
};
const httpToolSchema = z.preprocess(
  (entry) => (typeof entry === 'string' ? toolAt(entry) : entry),
  z.strictObject(httpToolFields),
);
export type HttpToolConfig = Readonly<z.infer<typeof httpToolSchema>>;

/** A tool with nothing but a URL: named after the end of its path, with any object as input. */
function toolAt(url: string) {
  const { hostname, pathname } = URL.canParse(url) ? new URL(url) : { hostname: 'http', pathname: '/' };
  const end = pathname.split('/').findLast((segment) => segment !== '') ?? hostname;
  const name = end.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
  const description = `Sends its input as JSON to ${hostname}${pathname} and returns the answer.`;
  return { name, description, url, inputSchema: { type: 'object' } };
}

/** A tool that the client runs. The run waits for its output. */
const clientToolSchema = z.strictObject({
  name: z.string().regex(TOOL_NAME, 'letters, digits, - and _, at most 64'),
  description: z.string().min(1),
  inputSchema: objectSchema.default({ type: 'object' }),
  /** The provider makes the arguments fit the schema, if it can: a schema beyond its subset is refused. */
  strict: z.boolean().optional(),
});

export const SERVER_NAME = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'lower-case letters, digits and -, at most 32');

const toolNames = z.array(z.string().min(1));
const KINDS = ['module', 'http', 'mcp', 'client', 'agent'] as const;
const NO_SOURCE = `a tool is a name, or one of: ${KINDS.join(', ')}`;

/** A source has exactly one kind. `include` and `exclude` use the names of the MCP server. */
const toolSourceObjectSchema = z
  .strictObject({
    /** A TypeScript or JavaScript module, relative to the agents' folder. */
    module: z.string().min(1).optional(),
    http: httpToolSchema.optional(),
    mcp: SERVER_NAME.optional(),
    client: clientToolSchema.optional(),
    /** Another agent, to which the model gives tasks. The tool is named after it. */
    agent: z.string().min(1).max(64).optional(),
    /** Description of the tool for the model. Default: the other agent's. */
    description: z.string().min(1).optional(),
    mode: z.enum(CHILD_MODES).optional(),
    /** Limits of each run of that agent. A run has at most the rest of the limits of the run that calls it. */
    limits: runLimitsSchema.optional(),
    /** Most runs of that agent at the same time, per session that calls it. */
    maxParallel: positive.max(100).optional(),
    include: toolNames.optional(),
    exclude: toolNames.optional(),
    /** The model finds the tools with `search_tools`. A request offers only the working set. */
    deferred: z.boolean().optional(),
  })
  .refine((source) => kindsOf(source).length === 1, NO_SOURCE)
  .refine(
    ({ mcp, include, exclude, deferred }) =>
      mcp !== undefined || (include === undefined && exclude === undefined && deferred === undefined),
    'include, exclude and deferred are about mcp',
  )
  .refine(
    ({ agent, description, mode, limits, maxParallel }) =>
      agent !== undefined || [description, mode, limits, maxParallel].every((setting) => setting === undefined),
    'description, mode, limits and maxParallel are about agent',
  );

const kindsOf = (source: object) => KINDS.filter((kind) => kind in source);

/** The name of a tool or tool set, a module, an endpoint, an MCP server or a client tool. */
export const toolSourceSchema = z.union([z.string().min(1), toolSourceObjectSchema], NO_SOURCE);
export type ToolSource = Readonly<z.infer<typeof toolSourceSchema>> | string;
export type McpSource = Readonly<{
  mcp: string;
  include?: readonly string[];
  exclude?: readonly string[];
  deferred?: boolean;
}>;

/** The name of a source in error messages. */
export function toolSourceLabel(source: ToolSource): string {
  if (typeof source === 'string') return source;
  if (source.http !== undefined) return `http:${source.http.name}`;
  if (source.client !== undefined) return `client:${source.client.name}`;
  if (source.agent !== undefined) return `agent:${source.agent}`;
  return source.mcp === undefined ? `module:${source.module}` : `mcp:${source.mcp}`;
}

/** The limits of single tools beside `maxOutputChars`. */
const OWN_LIMITS: Readonly<Record<string, readonly string[]>> = {
  read_file: ['maxLines', 'maxLineLength'],
  grep: ['maxMatches'],
};

const toolLimitSchema = z.strictObject({
  /** Characters of a result in the view. The model reads the rest with `read_tool_output`. */
  maxOutputChars: z.number().int().min(500).max(MAX_TOOL_OUTPUT_CHARS).optional(),
  /** Lines that one `read_file` returns, and characters per line. */
  maxLines: positive.max(100_000).optional(),
  maxLineLength: positive.max(MAX_TOOL_OUTPUT_CHARS).optional(),
  maxMatches: positive.max(100_000).optional(),
});
type ToolLimit = Readonly<z.infer<typeof toolLimitSchema>>;

/** Limits by tool name. */
export const toolLimitsSchema = z.record(z.string().min(1), toolLimitSchema).superRefine((limits, ctx) => {
  for (const [tool, limit] of Object.entries(limits)) {
    for (const key of Object.keys(limit)) {
      if (key === 'maxOutputChars' || OWN_LIMITS[tool]?.includes(key) === true) continue;
      ctx.addIssue({ code: 'custom', path: [tool, key], message: `${tool} has no such limit` });
    }
  }
});
export type ToolLimits = Readonly<Record<string, ToolLimit>>;
