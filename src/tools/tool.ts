import type { z } from 'zod';
import type { ChildSpec } from '../domain/run/child.ts';
import type { ToolDrift } from '../domain/run/tool-drift.ts';
import type { Json } from '../domain/transcript/message.ts';
import type { TakeRoom } from '../platform/arriving-bytes.ts';
import type { ToolReply } from './input-needed.ts';

export type ToolContext = Readonly<{
  /** Aborted on cancel, timeout, shutdown and loss of the claim. The tool must then stop its work. */
  signal: AbortSignal;
  /** The id of the call in the API, stable over repetitions: use it as the idempotency key of an outside effect. */
  callKey: string;
  /** The provider's id of the call. Providers reuse ids: never a key on its own. */
  toolCallId: string;
  /** The tenant of the session's key; `default` if the service has no keys. */
  tenantId: string;
  sessionId: string;
  runId: string;
  /** Whether the model would be shown a result of this text whole. A larger one loses its middle. */
  isShownWhole?: (text: string) => boolean;
  /** Waits for room for a result that arrives. Absent: there is room. */
  takeRoom?: TakeRoom;
  /** Reports that the tool differs from the session's pinned definition. */
  reportDrift?: (drift: ToolDrift) => Promise<void>;
  /** Absent: nothing can be kept. */
  outside?: OutsideWork;
  /** Set in a call that goes on after its question was answered. */
  reply?: ToolReply;
}>;

/** Work that a call has begun elsewhere, and that goes on without this worker. */
export type OutsideWork = Readonly<{
  /** What an earlier worker noted of this call, whose work is to be gone on with. Null: nothing was begun. */
  earlier: Json | null;
  /** Makes durable how another worker finds the work. False: another worker has the run already. */
  note: (work: Json) => Promise<boolean>;
  /** After an abort: another worker goes on with the work, so it must not be stopped. */
  isHandedOver: () => boolean;
}>;

/**
 * A tool that an agent can call.
 * - `execute` returns a string, any JSON value, or `{ type: 'content', value: [...] }` with texts and files in the AI
 *   SDK's form.
 * - A throw never fails the run: it becomes an error result, of which the model reads the message.
 * - Without `execute` the tool is client-side: the run waits for the client's output.
 */
export type Tool = Readonly<{
  name: string;
  description: string;
  inputSchema: z.ZodType | JsonSchema;
  /** The provider makes the arguments fit the schema. Default: it may not. */
  strict?: boolean | undefined;
  execute?: (input: unknown, context: ToolContext) => Promise<unknown>;
  /**
   * The result as the model is shown it, in the AI SDK's form (`ToolResultOutput`): `text`, `json`, `error-text`,
   * `error-json`, or `content` of texts and files. Default: a string as text, content unchanged, any other value as
   * JSON.
   */
  toModelOutput?: (result: Readonly<{ toolCallId: string; input: unknown; output: unknown }>) => unknown;
  /** Whether a call waits for an approval before it runs. A function that throws or does not answer counts as true. */
  needsApproval?: boolean | ((input: unknown) => boolean | Promise<boolean>);
  /**
   * For a call whose worker died while it ran, if it may not be repeated.
   * - `report` (default): the model reads that the outcome is unknown.
   * - `ask`: the run waits until a person or client decides whether the call is repeated.
   */
  onUnknown?: 'report' | 'ask';
  /** Two runs with the same `callKey` have the effect of one, so a call with an unknown outcome may be repeated. */
  idempotent?: boolean;
  /**
   * A call whose worker died goes on with the work that it noted (`ToolContext.outside`), in place of a new call.
   * `stop`: ends that work, since the run was cancelled meanwhile. Never rejects.
   */
  resumes?: Readonly<{ stop: (work: Json) => Promise<void> }>;
  /** The tool changes nothing outside, so it needs no durable `running` mark before it starts. Implies `idempotent`. */
  readOnly?: boolean;
  /** `execute` refuses arguments that do not fit, in words for the model. */
  checksInput?: true;
  /**
   * `execute` writes its input as JSON, and so gets numbers with all digits that the model wrote. Any other tool gets
   * JavaScript numbers, and is not called with one that these cannot hold.
   */
  takesWrittenNumbers?: true;
  /** Longest time of one call, in milliseconds. */
  timeoutMs?: number;
  /** Most characters of a result that the model is shown, if the context allows more. */
  maxOutputChars?: number;
  /** The model is offered the tool only after `search_tools` found it, and while the view refers to it. */
  deferred?: boolean;
  /** A call begins or continues a session of another agent, and no worker runs it. */
  child?: ChildSpec;
  /** Its results are pages that the tool can return again, so the part that is cut from one is not stored. */
  paged?: boolean;
}>;

/** A tool that workers run. */
export type ServerTool = Tool & Readonly<{ execute: NonNullable<Tool['execute']> }>;

/** True: a worker runs the tool. False: it is client-side or missing. */
export const isServerTool = (tool: Tool | undefined): tool is ServerTool => tool?.execute !== undefined;

/** A JSON Schema (draft 2020-12) object, for tools whose schema is not written in zod. */
export type JsonSchema = Readonly<{ type: 'object' } & Record<string, unknown>>;
