import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { DELIVERY_MANNERS, type DeliveryManner, type Receipt } from '../check/deliveries.ts';

/** All receivers of webhooks: one server, at a name that webhooks may reach, with a path for each manner. */
export type Receivers = AsyncDisposable &
  Readonly<{
    urlOf: (manner: DeliveryManner) => string;
    /** All requests that came, also those that were not answered. */
    receipts: readonly Receipt[];
    /** The receivers of another tenant begin with this. They never answer, and are in no receipt. */
    crowdUrl: string;
    /** The most requests to the crowd that were open at the same time. */
    mostHung: () => number;
  }>;

const SLOW_MS = 1_500;
/** For this long after the start, the `dead` receiver breaks every connection off. */
const DEAD_FOR_MS = 4_000;

export async function startReceivers(): Promise<Receivers> {
  const receipts: Receipt[] = [];
  let hung = 0;
  let mostHung = 0;
  const startedAtMs = performance.now();
  const statusOf = async (path: string): Promise<number | 'hangs' | 'breaks'> => {
    if (path === 'slow') await delay(SLOW_MS, undefined, { ref: false });
    if (path === 'hangs') return 'hangs';
    if (path === 'dead' && performance.now() - startedAtMs < DEAD_FOR_MS) return 'breaks';
    if (path === 'redirects') return 307;
    return path === 'gone' ? 410 : 204;
  };
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/crowd') === true) {
      hung += 1;
      mostHung = Math.max(mostHung, hung);
      request.on('error', () => undefined).resume();
      response.on('close', () => {
        hung -= 1;
      });
      return;
    }
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', async () => {
      const path = (request.url ?? '/').slice(1);
      const status = await statusOf(path);
      const body = Buffer.concat(chunks).toString();
      const answered = typeof status === 'number' && !response.destroyed;
      receipts.push({ path, id: String(request.headers['webhook-id']), body, status: answered ? status : null });
      if (status === 'breaks') request.socket.destroy();
      if (typeof status !== 'number') return;
      // The redirect leads to a private address, to which no webhook may send anything.
      response.writeHead(status, status === 307 ? { location: `http://127.0.0.1:${port()}/private` } : {}).end();
    });
  });
  const port = (): number => (server.address() as AddressInfo).port;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    urlOf: (manner) => `http://localhost:${port()}/${DELIVERY_MANNERS[manner].path}`,
    receipts,
    crowdUrl: `http://localhost:${port()}/crowd`,
    mostHung: () => mostHung,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
