import { hash } from 'node:crypto';
import { type BoundedMap, createBoundedMap } from './bounded-map.ts';
import type { Protocol, SimulatedMessage, SimulatedPart, SimulatedTool } from './request.ts';
import type { Violation } from './violation.ts';

/** One item of a request's history. Equal items of later requests share one object. */
export type WireItem = Readonly<{
  digest: string;
  /** `system` covers the developer role; `reference` is an `item_reference`; `other` is unknown. */
  kind: 'system' | 'message' | 'reference' | 'other';
  message: SimulatedMessage;
  /** Unscaled tokens with framing. */
  tokens: number;
  /** Violations of this item on its own; `{path}` stands for its place in the request. */
  problems: readonly Violation[];
}>;

/** A tool definition with its unscaled tokens. */
export type WireTool = Readonly<{
  digest: string;
  tool: SimulatedTool;
  tokens: number;
  problems: readonly Violation[];
}>;

/** A message of the Messages protocol: each of its content blocks is an item. */
export type WireTurn = Readonly<{ role: 'user' | 'assistant'; items: readonly WireItem[] }>;

export type MessagesDetails = Readonly<{
  turns: readonly WireTurn[];
  /** Indices in the joined list of tools and items after which the prompt is to be cached. */
  breakpoints: readonly number[];
  /** Whether the last step of a tool loop must start with thinking. */
  needsThinking: boolean;
  /** Whether thinking that was issued for another prompt is dropped instead of refused. */
  dropsForeignThinking: boolean;
}>;

/** A request of any protocol, read but not judged. */
export type WireRequest = Readonly<{
  protocol: Protocol;
  model: string;
  stream: boolean;
  /** Chat protocol: whether the stream ends with a usage chunk. */
  includeUsage: boolean;
  /** Responses protocol: whether reasoning items carry `encrypted_content`. */
  includeEncrypted: boolean;
  items: readonly WireItem[];
  tools: readonly WireTool[];
  cacheKey: string;
  maxOutputTokens: number | undefined;
  toolChoice: unknown;
  /** Violations of the request's own fields. */
  problems: readonly Violation[];
  /** Messages protocol only. */
  messages?: MessagesDetails;
  /** Responses protocol only: the response is made whether or not the client reads it. */
  background?: boolean;
}>;

export type ReadItem = Omit<WireItem, 'digest'>;

/** The body does not have the protocol's shape. */
export class WireError extends Error {
  readonly code = 'invalid_wire_request';
  readonly param: string | null;

  /** @param param the invalid field, as OpenAI's `error.param`. */
  constructor(message: string, param: string | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WireError';
    this.param = param;
  }
}

/** Reads items and tools once: a history that grows step by step costs only its new items. */
export type WireMemo = Readonly<{
  item: (json: unknown, read: (json: unknown) => ReadItem) => WireItem;
  tool: (json: unknown, read: (json: unknown) => Omit<WireTool, 'digest'>) => WireTool;
  clear: () => void;
}>;

const MEMO_ITEMS = 50_000;

/** Keeps the newest 50 000 items, keyed by a digest of their JSON. */
export function createWireMemo(): WireMemo {
  const items = createBoundedMap<string, WireItem>(MEMO_ITEMS);
  const tools = createBoundedMap<string, WireTool>(MEMO_ITEMS);
  return {
    item: (json, read) => remember(items, json, read),
    tool: (json, read) => remember(tools, json, read),
    clear: () => {
      items.clear();
      tools.clear();
    },
  };
}

function remember<T extends object>(
  cache: BoundedMap<string, T & { digest: string }>,
  json: unknown,
  read: (json: unknown) => T,
): T & { digest: string } {
  const digest = hash('sha1', JSON.stringify(json) ?? 'undefined');
  const found = cache.get(digest);
  if (found !== undefined) return found;
  const created = { ...read(json), digest };
  cache.set(digest, created);
  return created;
}

const EMPTY_MESSAGE: SimulatedMessage = { role: 'user', text: '', toolCalls: [], toolResults: [], parts: [] };

/** Fills the other fields with empty values. */
export function message(fields: Partial<SimulatedMessage> & Pick<SimulatedMessage, 'role'>): SimulatedMessage {
  return { ...EMPTY_MESSAGE, ...fields };
}

export function textOf(parts: readonly SimulatedPart[]): string {
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
}

/** Undefined: the text is not JSON. */
export function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * The conversation in normal form, without system texts. Items of one assistant turn are joined to one message, and so
 * are the results of one batch.
 */
export function normalizeItems(items: readonly WireItem[]): { system: string; messages: SimulatedMessage[] } {
  const system: string[] = [];
  const messages: SimulatedMessage[] = [];
  let group: SimulatedMessage[] = [];
  const close = () => {
    if (group.length > 0) messages.push(join(group));
    group = [];
  };
  for (const item of items) {
    if (item.kind === 'system') system.push(item.message.text);
    if (item.kind !== 'message') continue;
    if (item.message.role === 'user' || group[0]?.role !== item.message.role) close();
    group.push(item.message);
  }
  close();
  return { system: system.join('\n\n'), messages };
}

/** The same for the turns of the Messages protocol. The results and the rest of a user's turn are two messages. */
export function normalizeTurns(
  items: readonly WireItem[],
  turns: readonly WireTurn[],
): { system: string; messages: SimulatedMessage[] } {
  const messages = turns.flatMap((turn) => {
    const read = turn.items.filter(({ kind }) => kind === 'message').map((item) => item.message);
    const results = read.filter(({ role }) => role === 'tool');
    const others = read.filter(({ role }) => role !== 'tool');
    return [results, others].filter((group) => group.length > 0).map(join);
  });
  return { system: normalizeItems(items.filter(({ kind }) => kind === 'system')).system, messages };
}

/** Items are shared between requests, and so are their joined messages: a log of long histories stays small. */
const joined = new WeakMap<
  SimulatedMessage,
  Readonly<{ group: readonly SimulatedMessage[]; message: SimulatedMessage }>
>();

function join(group: readonly SimulatedMessage[]): SimulatedMessage {
  const [first] = group;
  if (first === undefined) return EMPTY_MESSAGE;
  if (group.length === 1) return first;
  const cached = joined.get(first);
  if (cached?.group.length === group.length && cached.group.every((each, index) => each === group[index])) {
    return cached.message;
  }
  const created: SimulatedMessage = {
    role: first.role,
    text: group.map((each) => each.text).join(''),
    toolCalls: group.flatMap((each) => each.toolCalls),
    toolResults: group.flatMap((each) => each.toolResults),
    parts: group.flatMap((each) => each.parts),
  };
  joined.set(first, { group, message: created });
  return created;
}
