import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Attacker, attackBy } from '../attack/attacker.ts';
import type { Row } from '../row.ts';
import { postmasterPid } from '../world/product.ts';

const READY_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 250;

/** Waits until `/readyz` reports this state. */
async function untilReady(attacker: Attacker, isReady: boolean, withinMs: number): Promise<boolean> {
  for (const sinceMs = performance.now(); performance.now() - sinceMs < withinMs; await delay(LOOK_EVERY_MS)) {
    const { status } = await attacker.ask('/readyz', { withinMs: 5_000 });
    if ((status === 200) === isReady) return true;
  }
  return false;
}

/** Sends messages during the outage. They may be refused or wait, but accepted ones must exist afterwards. */
async function sendOn(attacker: Attacker, sessions: readonly string[]): Promise<void> {
  for (let no = 0; !attacker.isOver(); no++) {
    await attacker.send(sessions[no % sessions.length] ?? '', 'Is this kept?');
    await delay(100);
  }
}

const createSome = (attacker: Attacker): Promise<string[]> =>
  Promise.all(Array.from({ length: 8 }, () => attacker.createSession()));

async function fillDisk(attacker: Attacker): Promise<void> {
  const { diskFolder } = attacker.target;
  if (diskFolder === null) throw new Error('there is no small disk');
  const sessions = await createSome(attacker);
  const filler = join(diskFolder, 'filler');
  attacker.count('MB that filled the disk', await writeUntilFull(filler));
  try {
    const [isTold] = await Promise.all([
      untilReady(attacker, false, attacker.target.lastsMs),
      sendOn(attacker, sessions),
    ]);
    if (!isTold) attacker.breach('/readyz stayed green while the disk was full');
    const refused = await attacker.ask('/v1/sessions', { body: { agent: 'attacker' } });
    attacker.count(`sessions on the full disk answered ${refused.status}`);
    if (refused.status === 503 && !/disk|space|53100/i.test(refused.text)) {
      attacker.breach(`the refusal does not tell that the disk is full: ${refused.text.slice(0, 200)}`);
    }
  } finally {
    await rm(filler);
  }
  await expectRecovery(attacker, 'the disk had room again');
}

async function writeUntilFull(path: string): Promise<number> {
  const file = createWriteStream(path);
  const megabyte = Buffer.alloc(1_048_576, 'x');
  let megabytes = 0;
  const full = new Promise<void>((resolve) => file.once('error', () => resolve()));
  const written = async (): Promise<void> => {
    for (;;) {
      await new Promise((resolve) => file.write(megabyte, resolve));
      if (file.destroyed) return;
      megabytes++;
    }
  };
  await Promise.race([full, written()]);
  return megabytes;
}

async function expectRecovery(attacker: Attacker, since: string): Promise<void> {
  if (!(await untilReady(attacker, true, READY_WITHIN_MS))) {
    return attacker.breach(`the service was not ready ${READY_WITHIN_MS} ms after ${since}`);
  }
  const session = await attacker.createSession();
  const accepted = await attacker.send(session, 'Does it work again?');
  const status = accepted === null ? 'refused' : await attacker.ended(accepted.runId, READY_WITHIN_MS);
  if (status !== 'completed') attacker.breach(`a run after ${since} is ${status}`);
}

async function fillRedis(attacker: Attacker): Promise<void> {
  const { redisUrl } = attacker.target;
  if (redisUrl === null) throw new Error('there is no Redis');
  const sessions = await createSome(attacker);
  const redis = new Redis(redisUrl);
  try {
    await redis.config('SET', 'maxmemory', '1mb');
    attacker.count('times that Redis was full');
    const [isTold] = await Promise.all([
      untilReady(attacker, false, attacker.target.lastsMs),
      sendOn(attacker, sessions),
    ]);
    if (!isTold) attacker.breach('/readyz stayed green while Redis took nothing');
  } finally {
    await redis.config('SET', 'maxmemory', '0');
    redis.disconnect();
  }
  await expectRecovery(attacker, 'Redis had room again');
}

async function killPostgres(attacker: Attacker): Promise<void> {
  const sessions = await createSome(attacker);
  await Promise.all(sessions.map((session) => attacker.send(session, 'Before the kill.')));
  process.kill(await postmasterPid(attacker.target.folder), 'SIGKILL');
  attacker.count('kills of Postgres');
  await untilReady(attacker, false, 5_000);
  await expectRecovery(attacker, 'Postgres was killed');
}

/** A store that accepts no writes, or has died. */
export const STORES: readonly Row[] = [
  {
    name: 'full-disk',
    about: 'the disk of Postgres is full, and has room again later',
    needs: ['mount'],
    hasSmallDisk: true,
    spares: ['read'],
    attack: attackBy(fillDisk),
  },
  {
    name: 'full-redis',
    about: 'Redis is at maxmemory, and has room again later',
    needs: ['redis'],
    spares: ['read', 'create'],
    attack: attackBy(fillRedis),
  },
  {
    name: 'embedded-killed',
    about: 'the embedded Postgres of `npm start` is killed',
    isNewcomer: true,
    spares: [],
    attack: attackBy(killPostgres),
  },
];
