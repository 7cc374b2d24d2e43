import type { LiveEvent } from '@baton-run/server/client';

/** The message that a model is writing: its text is not in the transcript yet. */
export type LiveMessage = Readonly<{
  messageId: string;
  epoch: number;
  /** When its first piece came to this page. */
  firstAtMs: number;
  text: string;
  reasoning: string;
  /** The tool inputs that the model is writing, by the id of the call. */
  inputs: ReadonlyMap<string, Readonly<{ toolName: string; chars: number }>>;
}>;

export type LiveText = Readonly<{
  subscribe: (listener: () => void) => () => void;
  current: () => LiveMessage | null;
  take: (event: LiveEvent) => void;
  /** Forgets the message: the next events send its text from the beginning. */
  reset: () => void;
  /** Forgets this message, because the model begins it anew. */
  drop: (messageId: string) => void;
}>;

/** Collects the pieces of a message. It calls its listeners once for each frame of the screen at most. */
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
    // A page in the background gets no animation frames, so its listeners would never be called.
    if (document.hidden) setTimeout(tell, 250);
    else requestAnimationFrame(tell);
  };
  const of = (messageId: string, epoch: number): LiveMessage =>
    live !== null && live.messageId === messageId && live.epoch >= epoch
      ? live
      : { messageId, epoch, firstAtMs: Date.now(), text: '', reasoning: '', inputs: new Map() };
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
