import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type HalfBodies, sendHalfBodies } from '../../support/half-bodies.ts';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import type { Row } from '../row.ts';

const CONNECTIONS = 1_500;
/** Twenty times in a second: what is attacked is what bodies hold, and not how fast connections are accepted. */
const OPENED_AT_ONCE = 25;
const BETWEEN_OPENINGS_MS = 50;
const HOOK_BYTES = 262_144;
const CONTENT_BYTES = 15_000_000;
const SMALL_HEAP = '--max-old-space-size=512';

const HOOKS = `
hooks:
  orders:
    agent: attacker
    verify: github
    secretEnv: ABUSE_HOOK_SECRET
    session: "{body.a}"
    content: "{body.a}"
`;

/** A small heap, and a hook whose secret the attacker does not know. */
async function withHook(folder: string) {
  const file = join(folder, 'hooks.yaml');
  await writeFile(file, HOOKS);
  const settings = { BATON_HOOKS_FILE: file, ABUSE_HOOK_SECRET: crypto.randomUUID(), NODE_OPTIONS: SMALL_HEAP };
  return { settings };
}

async function holdHalves(attacker: Attacker, path: string, declared: number, hasKey: boolean): Promise<void> {
  const headers = hasKey ? attacker.target.headers : {};
  const options = { count: OPENED_AT_ONCE, declared, sent: HOOK_BYTES / 2, headers, lanes: OPENED_AT_ONCE };
  const all: HalfBodies[] = [];
  let most = 0;
  await attacker.inLanes(1, async () => {
    all.push(await sendHalfBodies(attacker.target.url, path, options));
    let open: number;
    do {
      open = all.reduce((sum, halves) => sum + halves.open(), 0);
      most = Math.max(most, open);
      await delay(BETWEEN_OPENINGS_MS);
    } while (open >= CONNECTIONS && !attacker.isOver());
  });
  for (const halves of all) {
    for (const [status, times] of halves.answered) attacker.count(`half-sent bodies answered ${status}`, times);
    halves[Symbol.dispose]();
  }
  attacker.count('connections open at the same time', most);
}

async function signWrongly(attacker: Attacker): Promise<void> {
  const body = `[${'1,'.repeat(100_000)}1]`;
  const headers = { 'x-hub-signature-256': 'sha256=00', authorization: '' };
  await attacker.inLanes(64, async () => {
    const { status } = await attacker.ask('/v1/hooks/orders', { body, headers });
    attacker.count(`wrong signatures answered ${status}`);
    if (status === 202) attacker.breach('a request without a right signature was taken');
  });
}

async function logIn(attacker: Attacker): Promise<void> {
  const headers = { 'x-baton-console': '1', authorization: '' };
  await attacker.inLanes(100, async () => {
    const body = { key: `baton_${crypto.randomUUID()}` };
    const { status } = await attacker.ask('/console/login', { body, headers });
    attacker.count(`logins answered ${status}`);
    if (status === 200 || status === 204) attacker.breach('a key that was made up was let in');
  });
}

/** Enough for the neighbour, who has the same. */
const RATE = 6_000;

async function sendBatches(attacker: Attacker): Promise<void> {
  let begun = 0;
  await attacker.inLanes(4, async () => {
    const body = Array.from({ length: 50 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' }));
    const headers = { accept: 'application/json, text/event-stream' };
    const { status } = await attacker.ask('/mcp', { body, headers });
    attacker.count(`batches answered ${status}`);
    if (status === 200) begun += body.length;
  });
  if (begun > 2 * RATE) attacker.breach(`${begun} requests were taken of a key that may send ${RATE} a minute`);
}

/** Callers without a key, and what gets past the count of requests. */
export const STRANGERS: readonly Row[] = [
  {
    name: 'half-bodies',
    about: '500 connections a second without a key, up to 1 500, that send half a body each to a hook; 512 MiB of heap',
    setUp: withHook,
    attack: attackBy((attacker) => holdHalves(attacker, '/v1/hooks/orders', HOOK_BYTES, false)),
  },
  {
    name: 'half-bodies-with-key',
    about: 'the same with a key, of 15 MB each',
    setUp: withHook,
    attack: attackBy((attacker) => holdHalves(attacker, '/v1/chat/completions', CONTENT_BYTES, true)),
  },
  {
    name: 'wrong-signatures',
    about: '64 connections that send 200 kB each to a hook, with wrong signatures',
    setUp: withHook,
    attack: attackBy(signWrongly),
  },
  { name: 'logins', about: '100 connections that try keys at the login of the console', attack: attackBy(logIn) },
  {
    name: 'mcp-batches',
    about: 'batches of 50 requests by 4 connections, with a key that may send 6 000 a minute',
    setUp: () => ({ settings: { BATON_REQUESTS_PER_MINUTE: String(RATE) } }),
    attack: attackBy(sendBatches),
  },
];
