import type { LiveEvent } from '../../src/domain/run/events.ts';
import type { LiveBus, SessionListener } from '../../src/events/live-bus.ts';

export type Heard =
  | { kind: 'committed'; seq: number }
  | { kind: 'preview'; event: LiveEvent }
  | { kind: 'reconnected' };

export type Listening = Disposable & Readonly<{ heard: Heard[] }>;

/** Keeps everything that one listener is told, in order. */
export async function listen(bus: LiveBus, sessionId: string): Promise<Listening> {
  const heard: Heard[] = [];
  const listener: SessionListener = {
    onCommitted: (seq) => void heard.push({ kind: 'committed', seq }),
    onPreview: (event) => void heard.push({ kind: 'preview', event }),
    onReconnected: () => void heard.push({ kind: 'reconnected' }),
  };
  const subscription = await bus.onSession(sessionId, listener);
  return { heard, [Symbol.dispose]: () => subscription[Symbol.dispose]() };
}

export function chunk(offset: number, content: string, chunkType: 'text' | 'reasoning' = 'text'): LiveEvent {
  return { type: 'llm:chunk', data: { messageId: 'msg_1', epoch: 1, offset, chunkType, content } };
}

export function committedSeqs(heard: readonly Heard[]): number[] {
  return heard.flatMap((item) => (item.kind === 'committed' ? [item.seq] : []));
}

export function chunksOf(heard: readonly Heard[]): { offset: number; content: string; chunkType: string }[] {
  return heard.flatMap((item) =>
    item.kind === 'preview' && item.event.type === 'llm:chunk'
      ? [{ offset: item.event.data.offset, content: item.event.data.content, chunkType: item.event.data.chunkType }]
      : [],
  );
}
