import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import { holdRun, release } from '../attack/held-run.ts';
import type { Row } from '../row.ts';
import { withOrder } from '../world/model.ts';

const STREAMS = 1_500;
const WAITS = 1_500;
const IDLE_CONNECTIONS = 1_500;
const SLOW_READERS = 200;
const SLOW_PAGES = 60;
const LARGE_CHARS = 400_000;
const LARGE_MESSAGES = 12;
const MIN_LARGE_MESSAGES = 3;

/** Sends this many requests with one key, each on its own connection. @returns disposing it closes all of them */
async function hold(attacker: Attacker, path: string, count: number, options: { reads: boolean }): Promise<Disposable> {
  const sockets = new Set<Socket>();
  const { url, headers } = attacker.target;
  await attacker.pieces(20, count, async () => {
    const answered = Promise.withResolvers<void>();
    const asked = request(url + path, { agent: false, headers: { ...headers, accept: 'text/event-stream' } });
    asked.on('socket', (socket) => sockets.add(socket));
    asked.on('response', (response) => {
      attacker.count(`held connections answered ${response.statusCode}`);
      if (options.reads) response.resume();
      response.on('error', () => undefined);
      answered.resolve();
    });
    asked.on('error', () => {
      attacker.count('held connections cut');
      answered.resolve();
    });
    asked.end();
    // The answer comes when the run ends, so the lane goes on without it.
    await Promise.race([answered.promise, delay(PATIENCE_MS)]);
  });
  attacker.count('connections opened', sockets.size);
  return {
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

const PATIENCE_MS = 20;

async function openStreams(attacker: Attacker): Promise<void> {
  const session = await attacker.createSession();
  using _streams = await hold(attacker, `/v1/sessions/${session}/events`, STREAMS, { reads: true });
  await attacker.inLanes(1, async () => {
    const accepted = await attacker.send(session, withOrder('Go on.', { chars: 5_000 }));
    if (accepted !== null) await attacker.ended(accepted.runId, 5_000);
  });
}

async function openWaits(attacker: Attacker): Promise<void> {
  const { run } = await holdRun(attacker, 'waits');
  using _waits = await hold(attacker, `/v1/runs/${run}/wait?timeoutMs=30000`, WAITS, { reads: true });
  await attacker.inLanes(1, () => delay(100));
  await release(attacker, 'waits');
  if ((await attacker.ended(run, 30_000)) === null) attacker.breach('the run that everybody waited for has not ended');
}

/** A third of the connections send nothing, the others now and then one character of a header or body. */
async function idle(attacker: Attacker): Promise<void> {
  const { hostname, port } = new URL(attacker.target.url);
  const authorization = attacker.target.headers['authorization'] ?? '';
  const begun = `POST /v1/sessions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${authorization}\r\n`;
  const openings = ['', begun, `${begun}content-type: application/json\r\ncontent-length: 900000\r\n\r\n{`];
  const sockets: Socket[] = [];
  await attacker.pieces(20, IDLE_CONNECTIONS, async (no) => {
    const socket = connect(Number(port), hostname);
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => attacker.count('idle connections closed'));
    socket.write(openings[no % openings.length] ?? '');
    await delay(5);
  });
  attacker.count('idle connections opened', sockets.length);
  while (!attacker.isOver()) {
    for (const [no, socket] of sockets.entries()) if (no % openings.length !== 0 && socket.writable) socket.write('a');
    await delay(500);
  }
  for (const socket of sockets) socket.destroy();
}

/** The client requests the whole session and does not read the answers. */
async function readSlowly(attacker: Attacker): Promise<void> {
  const session = await attacker.createSession();
  const text = 'lorem ipsum '.repeat(LARGE_CHARS).slice(0, LARGE_CHARS);
  using _readers = await hold(attacker, `/v1/sessions/${session}/events?after=0`, SLOW_READERS, { reads: false });
  using _pages = await hold(attacker, `/v1/sessions/${session}/messages?limit=100`, SLOW_PAGES, { reads: false });
  // A slow machine sends fewer.
  for (let sent = 0; sent < LARGE_MESSAGES && !(sent >= MIN_LARGE_MESSAGES && attacker.isOver()); sent++) {
    const accepted = await attacker.send(session, withOrder(text, { chars: LARGE_CHARS }));
    if (accepted !== null) await attacker.ended(accepted.runId, 20_000);
  }
  await attacker.inLanes(1, async () => {
    using _more = await hold(attacker, `/v1/sessions/${session}/events?after=0`, 20, { reads: false });
    await delay(500);
  });
}

/** One key holds too many connections or streams. */
export const HOLDING: readonly Row[] = [
  { name: 'many-streams', about: '1 500 event streams of one session with one key', attack: attackBy(openStreams) },
  { name: 'many-waits', about: '1 500 requests that wait for one run', attack: attackBy(openWaits) },
  {
    name: 'idle-connections',
    about: '1 500 connections that say nothing, or a character now and then',
    attack: attackBy(idle),
  },
  {
    name: 'slow-readers',
    about: '200 streams and 60 pages of a session with large messages, none of which the client reads',
    attack: attackBy(readSlowly),
  },
];
