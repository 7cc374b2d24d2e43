import { connect } from 'node:net';

export type HalfSent = Disposable &
  Readonly<{
    /** The first line of the answer, its code and its words, as soon as it comes. */
    answer: Promise<string>;
    /** Sends more of the body. */
    send: (bytes: number) => void;
  }>;

type Half = Readonly<{
  method?: string;
  headers?: Readonly<Record<string, string>>;
  /** Bytes that the request says it has. Null: it is chunked. */
  declared: number | null;
  /** Bytes that are sent at once. */
  sent: number;
}>;

/** Begins a request and stops in the middle of its body. */
export function sendHalf(url: string, path: string, { method = 'POST', headers = {}, declared, sent }: Half): HalfSent {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const { promise, resolve } = Promise.withResolvers<string>();
  let received = '';
  const length = declared === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${declared}`;
  const named = Object.entries({ 'content-type': 'application/json', ...headers });
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${hostname}`, length, ...named.map((pair) => pair.join(': '))];
  const send = (bytes: number): void => {
    const text = 'x'.repeat(bytes);
    socket.write(declared === null ? `${bytes.toString(16)}\r\n${text}\r\n` : text);
  };
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  if (sent > 0) send(sent);
  socket.on('data', (chunk) => {
    received += chunk.toString();
    if (received.includes('\r\n\r\n') && received.includes('}')) resolve(received);
  });
  socket.on('close', () => resolve(received)).on('error', () => resolve(received));
  return { answer: promise, send, [Symbol.dispose]: () => void socket.destroy() };
}
