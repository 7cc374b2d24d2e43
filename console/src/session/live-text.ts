import type { LiveEvent } from 'baton/client';

/** What a model writes at the moment: text that is not in the transcript yet. */
export type LiveMessage = Readonly<{
  messageId: string;
  epoch: number;
  text: string;
  reasoning: string;
  /** By the ids of the calls. */
  inputs: ReadonlyMap<string, Readonly<{ toolName: string; chars: number }>>;
}>;

export type LiveText = Readonly<{
  subscribe: (listener: () => void) => () => void;
  current: () => LiveMessage | null;
  take: (event: LiveEvent) => void;
  /** Forgets all: what comes begins anew. */
  reset: () => void;
  /** The message begins anew. */
  drop: (messageId: string) => void;
}>;

/** Collects the pieces of a message, and tells of them once for each picture of the screen. */
export function createLiveText(): LiveText {
  const listeners = new Set<() => void>();
  let live: LiveMessage | null = null;
  let isDue = false;
  const changed = (): void => {
    if (isDue) return;
    isDue = true;
    const tell = (): void => {
      isDue = false;
      for (const listener of listeners) listener();
    };
    // A page in the background gets no pictures, and would never be told.
    if (document.hidden) setTimeout(tell, 250);
    else requestAnimationFrame(tell);
  };
  const of = (messageId: string, epoch: number): LiveMessage =>
    live !== null && live.messageId === messageId && live.epoch >= epoch
      ? live
      : { messageId, epoch, text: '', reasoning: '', inputs: new Map() };
  return {
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    current: () => live,
    take(event) {
      if (event.type === 'llm:thinking') live = of(event.data.messageId, live?.epoch ?? 0);
      else if (event.type === 'llm:chunk') {
        const { messageId, epoch, chunkType, content } = event.data;
        const before = of(messageId, epoch);
        live = { ...before, [chunkType]: before[chunkType] + content };
      } else {
        const { messageId, epoch, id, toolName, offset, content } = event.data;
        const before = of(messageId, epoch);
        live = { ...before, inputs: new Map(before.inputs).set(id, { toolName, chars: offset + content.length }) };
      }
      changed();
    },
    reset() {
      live = null;
      changed();
    },
    drop(messageId) {
      if (live?.messageId !== messageId) return;
      live = null;
      changed();
    },
  };
}
