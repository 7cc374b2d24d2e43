import type { z } from 'zod';
import type { ToolDrift } from '../domain/run/tool-drift.ts';

/** What a running tool is told about the call it serves. */
export type ToolContext = Readonly<{
  /**
   * Aborted when the run is cancelled, the tool's time is up or the worker loses its claim. A tool
   * must stop its work then.
   */
  signal: AbortSignal;
  /**
   * The id of the call in the API, stable over its re-deliveries: use it as the idempotency key of an outside effect.
   */
  callKey: string;
  /** The provider's id of the call. Providers reuse ids: never a key on its own. */
  toolCallId: string;
  /** Whose session it is: the tenant of its key, `default` where the service has no keys. */
  tenantId: string;
  sessionId: string;
  runId: string;
  /** Whether the model will be shown a result of this text whole: what is larger loses its middle. */
  isShownWhole?: (text: string) => boolean;
  /** Tells that the tool is not what the session has pinned. */
  reportDrift?: (drift: ToolDrift) => Promise<void>;
}>;

/**
 * A tool that an agent can call. `execute` returns a string, any JSON value, or `{ type: 'content', value: [...] }`
 * with texts and files in the AI SDK's form; a throw becomes an error result that the model reads (its message only),
 * never a failed run. Without `execute` it is the client's: the run waits until the client gives the output.
 */
export type Tool = Readonly<{
  name: string;
  description: string;
  inputSchema: z.ZodType | JsonSchema;
  execute?: (input: unknown, context: ToolContext) => Promise<unknown>;
  /**
   * What the model is shown of a result, in the AI SDK's form (`ToolResultOutput`): `text`, `json`, `error-text`,
   * `error-json`, or `content` of texts and files. Default: a string as text, content as it is, anything else as JSON.
   */
  toModelOutput?: (result: Readonly<{ toolCallId: string; input: unknown; output: unknown }>) => unknown;
  /**
   * Whether somebody has to approve a call before it runs: the run waits for that. A check that throws or does not
   * answer counts as yes.
   */
  needsApproval?: boolean | ((input: unknown) => boolean | Promise<boolean>);
  /**
   * What becomes of a call whose worker died while it ran, where it may not be repeated. `report` (default): the model
   * is told that nobody knows. `ask`: the run waits until somebody says whether it is run again.
   */
  onUnknown?: 'report' | 'ask';
  /** Running it twice with the same `callKey` does the same as once: a call of unknown outcome may be repeated. */
  idempotent?: boolean;
  /** It changes nothing outside: no durable `running` mark is needed before it starts. Implies `idempotent`. */
  readOnly?: boolean;
  /** Longest time one call may take, in milliseconds. */
  timeoutMs?: number;
  /** Most characters of a result that the model is shown, where that is less than the context allows. */
  maxOutputChars?: number;
  /** The model is offered it only once it was found with `search_tools`, and while the view refers to it. */
  deferred?: boolean;
  /** Its results are pages of something that it can be asked for again: what is cut out of one is not kept. */
  paged?: boolean;
}>;

/** A tool that workers run. */
export type ServerTool = Tool & Readonly<{ execute: NonNullable<Tool['execute']> }>;

/** Whether a worker runs the tool; false for a client's tool and for none. */
export const isServerTool = (tool: Tool | undefined): tool is ServerTool => tool?.execute !== undefined;

/** A JSON Schema (draft 2020-12) object, for tools whose schema is not written in zod. */
export type JsonSchema = Readonly<{ type: 'object' } & Record<string, unknown>>;
