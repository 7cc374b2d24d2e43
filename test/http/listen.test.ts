import { createServer } from 'node:http';
import { connect } from 'node:net';
import { setImmediate as nextRound } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { listen } from '../../src/http/listen.ts';

const CONNECTIONS = 200;

describe('a port', () => {
  test('takes several connections in one round of the event loop', { skip: process.platform !== 'linux' }, async () => {
    const server = createServer();
    let accepted = 0;
    server.on('connection', () => {
      accepted += 1;
    });
    const { port, stop } = await listen(server, { host: '127.0.0.1', port: 0 });
    const clients = Array.from({ length: CONNECTIONS }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    let most = 0;
    for (let before = 0; accepted < CONNECTIONS; before = accepted) {
      await nextRound();
      most = Math.max(most, accepted - before);
    }
    for (const client of clients) client.destroy();
    server.closeAllConnections();
    await stop();
    expect(most).toBeGreaterThan(2);
  });

  test('that another process could share is refused all the same', async () => {
    const [first, second] = [createServer(), createServer()];
    const { port, stop } = await listen(first, { host: '127.0.0.1', port: 0 });
    await expect(listen(second, { host: '127.0.0.1', port })).rejects.toMatchObject({ code: 'config_invalid' });
    await stop();
    await using _ = { [Symbol.asyncDispose]: (await listen(second, { host: '127.0.0.1', port })).stop };
  });
});
