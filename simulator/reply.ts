import type { Fault } from './fault.ts';
import type { ReplyUsage } from './reply-usage.ts';
import type { SimulatedRequest } from './request.ts';

/** The reported finish reason. It may be false: `stop` with tool calls is sent as scripted (chat protocol). */
export type ScriptedFinishReason = 'stop' | 'tool-calls' | 'length' | 'content-filter';

/** A tool call of a scripted reply. A string as `input` is sent as raw arguments, to simulate malformed JSON. */
export type ScriptedToolCall = Readonly<{ id?: string | undefined; name: string; input: unknown }>;

export type ReplyGates = Readonly<{
  beforeFirstChunk?: string | undefined;
  afterChunks?: Readonly<{ count: number; gate: string }> | undefined;
  /** Holds after every content chunk and every finished item, before the closing event. */
  beforeEnd?: string | undefined;
}>;

/** The scripted answer. Order on the wire: reasoning, searches, text, pictures, tool calls, text after the tools. */
export type Reply = Readonly<{
  reasoning?: string | undefined;
  text?: string | undefined;
  toolCalls?: readonly ScriptedToolCall[] | undefined;
  textAfterTools?: string | undefined;
  /** Default: `tool-calls` with calls, else `stop`. */
  finishReason?: ScriptedFinishReason | undefined;
  /** Overrides the counted usage; fields left out stay counted. */
  usage?: Partial<ReplyUsage> | undefined;
  /** Sent as `url_citation` annotations of the text. */
  sources?: readonly Readonly<{ url: string; title: string }>[] | undefined;
  /** Names of files that the text cites, and pictures by the model as base64. Responses protocol only. */
  documents?: readonly string[] | undefined;
  /** Queries of searches that the provider runs itself, before the text. Not in the chat protocol. */
  searches?: readonly string[] | undefined;
  pictures?: readonly string[] | undefined;
  chunkChars?: number | undefined;
  chunkDelayMs?: number | undefined;
  gates?: ReplyGates | undefined;
  /** Applies to this request only. A fault that is queued for the model comes first. */
  fault?: Exclude<Fault, { kind: 'delay' | 'context-overflow' }> | undefined;
  /** Called when the last byte was handed to a client that is still connected. */
  onDelivered?: (() => void) | undefined;
}>;

/**
 * The simulated model: a function that sees every request, or a list that is played in order per cache key
 * (`prompt_cache_key`, else `user`). A list advances when a reply was delivered whole, so a retry after a cut gets the
 * same reply; after the last one, a closing text ends the turn.
 */
export type Script = ((request: SimulatedRequest) => Reply | Promise<Reply>) | readonly Reply[];

/** Text of the reply after the last one of a list script. */
export const END_OF_SCRIPT = 'END_OF_SCRIPT';

/**
 * Turns a list of replies into a function with one cursor per cache key.
 * @param replies played in order; `closing` is repeated after the last one.
 */
export function listScript(replies: readonly Reply[], closing: Reply): (request: SimulatedRequest) => Reply {
  const cursors = new Map<string, number>();
  return (request) => {
    const cursor = cursors.get(request.cacheKey) ?? 0;
    const reply = replies[cursor];
    if (reply === undefined) return closing;
    return {
      ...reply,
      onDelivered: () => {
        // Two deliveries of the same reply (a duplicate request) move the cursor once.
        if ((cursors.get(request.cacheKey) ?? 0) === cursor) cursors.set(request.cacheKey, cursor + 1);
        reply.onDelivered?.();
      },
    };
  };
}
