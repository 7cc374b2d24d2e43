import { connect } from 'node:net';

/**
 * Sends bytes as they are and returns all that comes back until the server hangs up. The own side stays open: Node
 * answers nobody who has hung up.
 */
export async function exchangeRaw(url: string, request: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(request));
  let received = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk) => {
    received += chunk;
  });
  socket.on('error', reject);
  socket.on('close', () => resolve(received));
  return promise;
}
