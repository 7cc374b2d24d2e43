#!/usr/bin/env bash
# A BullMQ queue whose very first request to Redis failed never adds a job again, although Redis is back and the queue's
# own connection works.
#
# Guess: ioredis opens the connection again, and the next add succeeds.
# Seen: the queue reads INFO once for the version of Redis and keeps the promise of it. If Redis goes away with that
# request and refuses the next try, the promise is rejected for good. Every later add rejects with the same
# MaxRetriesPerRequestError, while `ping` on the queue's client answers and a queue made now adds at once.
# With `skipVersionCheck: true` the same outage costs nothing.
# Versions: bullmq 6.7.0, ioredis 5.11.1, redis-server 7.0.15, Node 20 and 24. 2026-11-28.
# Needs redis-server on the PATH.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
port=$((20000 + RANDOM % 20000))
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$folder" >/dev/null &
server=$!
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund bullmq@6.7.0 ioredis@5.11.1 >/dev/null 2>&1
cat >try.mjs <<'JS'
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Queue } from 'bullmq';

const redisPort = Number(process.argv[2]);

/** A way to Redis that is cut when the first INFO of the queue is sent, refuses for six seconds, and is open again. */
async function outage() {
  const sockets = new Set();
  let infos = 0;
  const server = net.createServer((client) => {
    const upstream = net.connect(redisPort, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    }
    client.on('data', (bytes) => {
      // The first INFO is the ready check of ioredis, the second the version that BullMQ asks for.
      if (/\$4\r\ninfo\r\n/i.test(bytes.toString()) && ++infos === 2) return void strike();
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => client.write(bytes));
    client.on('close', () => upstream.destroy());
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const ended = Promise.withResolvers?.() ?? (() => { let resolve; const promise = new Promise((r) => (resolve = r)); return { promise, resolve }; })();
  await listen(0);
  const { port } = server.address();
  async function strike() {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
    await delay(6_000);
    await listen(port);
    ended.resolve();
  }
  return { port, ended: ended.promise, close: () => { server.close(); for (const socket of sockets) socket.destroy(); } };
}

async function run(skipVersionCheck) {
  const way = await outage();
  const connection = { host: '127.0.0.1', port: way.port, maxRetriesPerRequest: 1 };
  const make = (port) => {
    const queue = new Queue('q', { connection: { ...connection, port }, ...(skipVersionCheck && { skipVersionCheck }) });
    queue.on('error', () => undefined);
    return queue;
  };
  const queue = make(way.port);
  if (!skipVersionCheck) await way.ended;
  else await Promise.race([way.ended, delay(8_000)]);
  await delay(8_000);
  const add = (each) => each.add('n', {}).then(() => 'added', (error) => error.name);
  const adds = [];
  for (let index = 0; index < 3; index += 1) {
    adds.push(await add(queue));
    await delay(500);
  }
  const fresh = make(redisPort);
  const answer = { adds, 'a queue made now': await add(fresh) };
  await fresh.close().catch(() => undefined);
  queue.close().catch(() => undefined);
  way.close();
  return answer;
}

console.log('default', JSON.stringify(await run(false)));
console.log('skipVersionCheck', JSON.stringify(await run(true)));
process.exit(0);
JS
timeout 90 node try.mjs "$port" | tee seen
cat >expected <<'EOF'
default {"adds":["MaxRetriesPerRequestError","MaxRetriesPerRequestError","MaxRetriesPerRequestError"],"a queue made now":"added"}
skipVersionCheck {"adds":["added","added","added"],"a queue made now":"added"}
EOF
diff expected seen && echo 'as described'
