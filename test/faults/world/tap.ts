import { connect, createServer, type Socket } from 'node:net';

/** A connection that passes through a tap. */
export type Passage = Readonly<{
  /** Closes both ends; what is under way is lost. */
  cut: () => void;
  /** True once the client has sent something that matches: a start-up packet names the application, say. */
  hasSaid: (pattern: RegExp) => boolean;
}>;

/** What to do when something passes. */
export type Trigger = Readonly<{
  /** Looked for in what the client sends. */
  marker: RegExp;
  /**
   * Whether it strikes before the request goes on to the server, or when its answer has come but is not yet passed on.
   */
  on: 'request' | 'reply';
  /** Strikes at this occurrence, counted from 1, and is gone then. */
  nth: number;
  /** `text` is of the request that matched. The data goes no further when it returns `lost`. */
  strike: (passage: Passage, text: string) => 'lost' | 'passed';
}>;

/** A TCP proxy that can listen in and fail in the ways in which networks fail. */
export type Tap = AsyncDisposable &
  Readonly<{
    port: number;
    passages: () => readonly Passage[];
    arm: (trigger: Trigger) => void;
    /** Where new connections go from now on. */
    retarget: (port: number) => void;
    /** Nothing passes any more, in neither direction, and nobody is told: sockets stay open. */
    swallow: () => void;
    /** What comes from now on passes again; connections that were open meanwhile are cut. */
    restore: () => void;
    /** Nothing passes for now, in neither direction, and nothing is lost. */
    hold: () => void;
    /** All that was held back passes, in its order. */
    release: () => void;
  }>;

type Armed = Trigger & { seen: number };
type Link = { client: Socket; server: Socket; said: string; struck: Armed | null; request: string };

/** Start-up packets and first commands are within this. */
const REMEMBERED_CHARS = 2_000;

/** Opens a tap in front of a port of this machine. */
export async function openTap(targetPort: number): Promise<Tap> {
  const links = new Set<Link>();
  const armed = new Set<Armed>();
  let target = targetPort;
  let swallowing = false;
  let holding = false;
  const cut = (link: Link): void => {
    links.delete(link);
    // Not reset: with a shutdown under way that leaves the event loop spinning without an end (Node 24, libuv).
    link.client.destroy();
    link.server.destroy();
  };
  const passageOf = (link: Link): Passage => ({ cut: () => cut(link), hasSaid: (pattern) => pattern.test(link.said) });
  const strike = (link: Link, trigger: Armed, text: string): boolean =>
    trigger.strike(passageOf(link), text) === 'passed';

  const onRequest = (link: Link, data: Buffer): boolean => {
    if (link.said.length < REMEMBERED_CHARS) link.said += data.toString('latin1');
    if (armed.size === 0) return true;
    const text = data.toString('latin1');
    for (const trigger of armed) {
      if (!trigger.marker.test(text)) continue;
      trigger.seen += 1;
      if (trigger.seen !== trigger.nth) continue;
      armed.delete(trigger);
      if (trigger.on === 'request') return strike(link, trigger, text);
      link.struck = trigger;
      link.request = text;
    }
    return true;
  };
  const onReply = (link: Link): boolean => {
    const trigger = link.struck;
    if (trigger === null) return true;
    link.struck = null;
    return strike(link, trigger, link.request);
  };

  const server = createServer((client) => {
    const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    const link: Link = { client, server: upstream, said: '', struck: null, request: '' };
    links.add(link);
    pass(client, upstream, (data) => !swallowing && onRequest(link, data));
    pass(upstream, client, () => !swallowing && onReply(link));
    if (holding) holdBack(link);
    for (const socket of [client, upstream]) {
      socket.on('error', () => cut(link));
      socket.on('close', () => {
        if (!swallowing) cut(link);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the tap listens on no port');
  return {
    port: address.port,
    passages: () => [...links].map(passageOf),
    arm: (trigger) => void armed.add({ ...trigger, seen: 0 }),
    retarget: (port) => {
      target = port;
    },
    swallow: () => {
      swallowing = true;
    },
    restore() {
      swallowing = false;
      for (const link of [...links]) cut(link);
    },
    hold() {
      holding = true;
      for (const link of links) holdBack(link);
    },
    release() {
      holding = false;
      for (const { client, server } of links) for (const socket of [client, server]) socket.resume();
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const link of [...links]) cut(link);
      await closed;
    },
  };
}

/** What comes stays with the system until it is read again. */
function holdBack({ client, server }: Link): void {
  for (const socket of [client, server]) socket.pause();
}

/** Forwards what `mayPass` lets through, at the pace of the receiver. What is held back is lost. */
function pass(from: Socket, to: Socket, mayPass: (data: Buffer) => boolean): void {
  from.on('data', (data: Buffer) => {
    if (!mayPass(data) || to.destroyed) return;
    if (to.write(data)) return;
    from.pause();
    to.once('drain', () => from.resume());
  });
  from.on('end', () => to.end());
}
