import { connect, createServer, type Socket } from 'node:net';

/** A connection that passes through a tap. */
export type Passage = Readonly<{
  /** Closes both ends; data under way is lost. */
  cut: () => void;
  /** True once the client has sent matching data, such as a start-up packet with the application's name. */
  hasSaid: (pattern: RegExp) => boolean;
}>;

/** An action for the moment at which matching data passes. */
export type Trigger = Readonly<{
  /** Pattern for the data that the client sends. */
  marker: RegExp;
  /**
   * `request`: strikes before the request goes on to the server. `reply`: strikes when the answer has come but is not
   * yet passed on.
   */
  on: 'request' | 'reply';
  /** The trigger strikes at this occurrence, counted from 1, and is gone then. */
  nth: number;
  /** `text` is the request that matched. If `strike` returns `lost`, the data goes no further. */
  strike: (passage: Passage, text: string) => 'lost' | 'passed';
}>;

/** A TCP proxy that can listen in and fail in the ways in which networks fail. */
export type Tap = AsyncDisposable &
  Readonly<{
    port: number;
    passages: () => readonly Passage[];
    arm: (trigger: Trigger) => void;
    /** Leads new connections to this port from now on. */
    retarget: (port: number) => void;
    /** Lets no data pass in either direction and drops it. Neither end notices: sockets stay open. */
    swallow: () => void;
    /** Lets new data pass again. Connections that were open meanwhile are cut. */
    restore: () => void;
    /** Cuts all connections and refuses new ones, until `restore`. */
    refuse: () => void;
    /** Lets no data pass for now in either direction, and loses none. */
    hold: () => void;
    /** Lets all data pass that was held back, in its order. */
    release: () => void;
  }>;

type Armed = Trigger & { seen: number };
type Link = { client: Socket; server: Socket; said: string; struck: Armed | null; request: string };

/** Start-up packets and first commands are shorter than this. */
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
    // No reset: with a shutdown under way, a reset leaves the event loop spinning without an end (Node 24, libuv).
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
    refuse() {
      server.close();
      for (const link of [...links]) cut(link);
    },
    restore() {
      swallowing = false;
      if (!server.listening) server.listen(address.port, '127.0.0.1');
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
      const closed = new Promise((resolve) => (server.listening ? server.close(resolve) : resolve(null)));
      for (const link of [...links]) cut(link);
      await closed;
    },
  };
}

/** Pauses both ends: arriving data stays with the operating system until it is read again. */
function holdBack({ client, server }: Link): void {
  for (const socket of [client, server]) socket.pause();
}

/** Forwards the data that `mayPass` lets through, at the pace of the receiver. All other data is lost. */
function pass(from: Socket, to: Socket, mayPass: (data: Buffer) => boolean): void {
  from.on('data', (data: Buffer) => {
    if (!mayPass(data) || to.destroyed) return;
    if (to.write(data)) return;
    from.pause();
    to.once('drain', () => from.resume());
  });
  from.on('end', () => to.end());
}
