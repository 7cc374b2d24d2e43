import type { ReplyUsage } from './reply-usage.ts';
import type { ViolationClass } from './violation.ts';

/** OpenAI's `/v1/responses` and `/v1/chat/completions`, Anthropic's `/v1/messages`. */
export type Protocol = 'responses' | 'chat' | 'messages';

export type SimulatedToolCall = Readonly<{
  id: string;
  name: string;
  /** The parsed arguments; the raw string if they are not JSON. */
  input: unknown;
}>;

type SimulatedToolResult = Readonly<{ id: string; output: string }>;

export type SimulatedPart =
  | Readonly<{ type: 'text'; text: string }>
  | Readonly<{ type: 'image'; url: string }>
  | Readonly<{ type: 'file'; name: string }>
  | Readonly<{ type: 'reasoning'; encryptedContent: string | undefined; summary: string }>;

/** One message in the normal form of all protocols. Results of one batch of calls are one `tool` message. */
export type SimulatedMessage = Readonly<{
  role: 'user' | 'assistant' | 'tool';
  text: string;
  toolCalls: readonly SimulatedToolCall[];
  toolResults: readonly SimulatedToolResult[];
  parts: readonly SimulatedPart[];
}>;

export type SimulatedTool = Readonly<{ name: string; description: string; inputSchema: unknown }>;

/** A request in the normal form of all protocols, as scripts see it. */
export type SimulatedRequest = Readonly<{
  protocol: Protocol;
  model: string;
  /** All system and developer texts and `instructions`, joined by blank lines. */
  system: string;
  messages: readonly SimulatedMessage[];
  tools: readonly SimulatedTool[];
  /** `prompt_cache_key`, else `user`, in the Messages protocol `metadata.user_id`, else the empty string. */
  cacheKey: string;
  maxOutputTokens: number | undefined;
  toolChoice: unknown;
  stream: boolean;
  /** Number of earlier requests with this cache key, refused ones included. */
  index: number;
}>;

/** `failed`: an error was sent inside the stream. `stalled` stays so when the client leaves. */
export type RequestOutcome =
  | 'in-progress'
  | 'completed'
  | 'refused'
  | 'failed'
  | 'aborted-by-client'
  | 'cut'
  | 'stalled';

export type RefusalReason = 'fault' | 'invalid' | 'unknown-model' | 'window' | 'bytes' | 'form';

/** One logged request. Times are milliseconds of `performance.now()` of the simulator's process. */
export type RequestRecord = Readonly<{
  /** Counts all requests of this simulator from 0. */
  no: number;
  protocol: Protocol;
  model: string;
  cacheKey: string;
  /** Undefined: the body could not be read as a request of the protocol. */
  request: SimulatedRequest | undefined;
  /** The JSON text as received. Undefined: it is not kept (see `rawBodies`). */
  rawBody: string | undefined;
  /** Request headers in lower case, without credentials. */
  headers: Readonly<Record<string, string>>;
  violations: readonly string[];
  violationClasses: readonly ViolationClass[];
  /** Real tokens of the whole prompt, and of the part that it shares with an earlier one of its cache key. */
  promptTokens: number;
  cachedTokens: number;
  /** Messages protocol: real tokens that are newly written to the cache, which is billed. */
  cacheWriteTokens: number;
  /** True: the prompt begins with the whole last answered prompt of its cache key, or is the first one. */
  extendsPrefix: boolean;
  /** True: it asks for a summary, not for a step. */
  summary: boolean;
  refusal: RefusalReason | undefined;
  /** The rule of the model's profile that the request broke. */
  brokenRule?: string | undefined;
  /** Billed usage. Undefined: there was no answer. */
  usage: ReplyUsage | undefined;
  startedAtMs: number;
  outcome: RequestOutcome;
  /** HTTP status sent; 0 before the answer began. */
  status: number;
  endedAtMs: number | undefined;
  /** When the client disconnected before the reply was complete. */
  abortedAtMs: number | undefined;
  /** Content chunks written. */
  chunksSent: number;
}>;
