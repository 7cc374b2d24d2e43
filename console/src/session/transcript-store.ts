import type { Message, MessagePage } from '@baton-run/server/client';

/** Reads a page: the messages after a number, or those before one. */
export type ReadMessages = (
  place: Readonly<{ after?: number; before?: number; limit: number; signal: AbortSignal }>,
) => Promise<MessagePage>;

/** The messages of the transcript by number. The store keeps the pages in sight, the newest and the last used ones. */
export type TranscriptStore = Readonly<{
  subscribe: (listener: () => void) => () => void;
  /** A number that grows with each change of the store. */
  version: () => number;
  /** The number of the newest message; 0: there is none; null: not known yet. */
  lastSeq: () => number | null;
  /** Undefined: not read yet. Null: no message has this number, or it was superseded. */
  at: (seq: number) => Message | null | undefined;
  /** Reads the missing messages between two numbers. */
  show: (fromSeq: number, toSeq: number) => void;
  /** Reads the newest messages, and reads again those that may have changed. */
  refresh: () => Promise<void>;
  /** The marks of all messages may have changed: those in sight are read again. */
  markStale: () => void;
  /** The error of the last attempt to read; null: the attempt succeeded. */
  failure: () => unknown;
  close: () => void;
}>;

const PAGE_SIZE = 50;
const MAX_PAGES = 24;
/** More than the number of any message. */
const END = 2_000_000_000;

type Page = {
  readonly messages: Map<number, Message>;
  isWhole: boolean;
  isStale: boolean;
  isLoading: boolean;
  usedAt: number;
};

const pageOf = (seq: number): number => Math.floor((seq - 1) / PAGE_SIZE);

const OPEN_CALLS: ReadonlySet<string> = new Set(['pending', 'awaiting_approval', 'awaiting_output', 'running']);

/** Whether the message is written to its end and all of its calls have an outcome. */
export const isSettled = ({ role, finishReason, error, parts }: Message): boolean =>
  role === 'user' ||
  ((finishReason !== null || error !== null) &&
    parts.every((part) => part.type !== 'tool' || !OPEN_CALLS.has(part.state)));

type Store = {
  readonly read: ReadMessages;
  /** Aborted when the store is closed. */
  readonly signal: AbortSignal;
  readonly changed: () => void;
  readonly pages: Map<number, Page>;
  last: number | null;
  failure: unknown;
  /** Grows with each use of a page. */
  clock: number;
};

export function createTranscriptStore(read: ReadMessages): TranscriptStore {
  const over = new AbortController();
  const listeners = new Set<() => void>();
  let version = 0;
  const changed = (): void => {
    version += 1;
    for (const listener of listeners) listener();
  };
  const store: Store = { read, signal: over.signal, changed, pages: new Map(), last: null, failure: null, clock: 0 };
  return {
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    version: () => version,
    lastSeq: () => store.last,
    at(seq) {
      const page = store.pages.get(pageOf(seq));
      return page?.messages.get(seq) ?? (page?.isWhole === true ? null : undefined);
    },
    show: (fromSeq, toSeq) => show(store, fromSeq, toSeq),
    refresh: createRefresh(store),
    markStale() {
      for (const page of store.pages.values()) page.isStale = true;
      changed();
    },
    failure: () => store.failure,
    close: () => over.abort(),
  };
}

function show(store: Store, fromSeq: number, toSeq: number): void {
  if (store.last === null || store.last === 0) return;
  const [from, to] = [pageOf(Math.max(1, fromSeq)), pageOf(Math.min(store.last, Math.max(1, toSeq)))];
  for (let no = from; no <= to; no++) {
    pageAt(store, no).usedAt = ++store.clock;
    void load(store, no);
  }
  forgetOld(store, from, to);
}

/** @returns reads what is new. Calls during a read share the one that follows it. */
function createRefresh(store: Store): () => Promise<void> {
  let running: Promise<void> | null = null;
  let isWanted = false;
  const readWanted = async (): Promise<void> => {
    try {
      while (isWanted) {
        isWanted = false;
        await (store.last === null ? readNewest(store) : readTail(store, store.last));
        store.failure = null;
        store.changed();
      }
    } catch (error) {
      if (!store.signal.aborted) {
        store.failure = error;
        store.changed();
      }
    } finally {
      running = null;
    }
  };
  return () => {
    isWanted = true;
    running ??= readWanted();
    return running;
  };
}

async function readNewest(store: Store): Promise<void> {
  const page = await store.read({ before: END, limit: PAGE_SIZE, signal: store.signal });
  put(store, page.messages);
  const first = page.previous === null ? 1 : (page.messages[0]?.seq ?? 1);
  const last = page.messages.at(-1)?.seq ?? 0;
  store.last = last;
  for (let no = pageOf(Math.max(1, last)); no * PAGE_SIZE + 1 >= first && no >= 0; no--) {
    pageAt(store, no).isWhole = true;
  }
}

async function readTail(store: Store, known: number): Promise<void> {
  const from = openFrom(store);
  const messages = await readAll(store, from - 1, END);
  for (let seq = from; seq <= known; seq++) store.pages.get(pageOf(seq))?.messages.delete(seq);
  put(store, messages);
  const end = messages.at(-1)?.seq ?? from - 1;
  // A page that begins among these messages is whole.
  for (let no = pageOf(from) + 1; no <= pageOf(Math.max(1, end)); no++) pageAt(store, no).isWhole = true;
  const last = Math.max(known, end);
  store.last = last;
  forgetOld(store, pageOf(last), pageOf(last));
}

async function load(store: Store, no: number): Promise<void> {
  const page = pageAt(store, no);
  if (page.isLoading || (page.isWhole && !page.isStale)) return;
  page.isLoading = true;
  page.isStale = false;
  try {
    const messages = await readAll(store, no * PAGE_SIZE, (no + 1) * PAGE_SIZE);
    page.messages.clear();
    put(store, messages);
    page.isWhole = true;
    store.failure = null;
  } catch (error) {
    if (!store.signal.aborted) store.failure = error;
  } finally {
    page.isLoading = false;
    store.changed();
  }
}

/** All messages after a number, up to another one. */
async function readAll({ read, signal }: Store, after: number, upTo: number): Promise<readonly Message[]> {
  const found: Message[] = [];
  for (let from: number | null = after; from !== null && from < upTo; ) {
    const page: MessagePage = await read({ after: from, limit: PAGE_SIZE, signal });
    found.push(...page.messages.filter(({ seq }) => seq <= upTo));
    from = page.next;
  }
  return found;
}

function put(store: Store, messages: readonly Message[]): void {
  for (const message of messages) pageAt(store, pageOf(message.seq)).messages.set(message.seq, message);
}

function pageAt(store: Store, no: number): Page {
  const known = store.pages.get(no);
  if (known !== undefined) return known;
  const page = { messages: new Map(), isWhole: false, isStale: false, isLoading: false, usedAt: ++store.clock };
  store.pages.set(no, page);
  return page;
}

function forgetOld({ pages, last }: Store, from: number, to: number): void {
  if (pages.size <= MAX_PAGES) return;
  const newest = pageOf(Math.max(1, last ?? 1));
  const old = [...pages].filter(([no, page]) => (no < from || no > to) && no < newest - 1 && !page.isLoading);
  old.sort(([, a], [, b]) => a.usedAt - b.usedAt);
  for (const [no] of old.slice(0, pages.size - MAX_PAGES)) pages.delete(no);
}

/** The number of the first message that may have changed. */
function openFrom({ pages, last }: Store): number {
  const newest = last ?? 0;
  for (let seq = Math.max(1, newest - PAGE_SIZE); seq <= newest; seq++) {
    const message = pages.get(pageOf(seq))?.messages.get(seq);
    if (message !== undefined && !isSettled(message)) return seq;
  }
  return newest + 1;
}
