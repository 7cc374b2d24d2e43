// Makes a folder a link to another one and back, as fast as it can, until the thread is ended.
import { existsSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { z } from 'zod';

const schema = z.object({ inside: z.string(), outside: z.string(), turns: z.instanceof(Int32Array) });
const { inside, outside, turns } = schema.parse(workerData);
const away = `${inside}-away`;

function turn(): void {
  renameSync(inside, away);
  symlinkSync(outside, inside);
  Atomics.add(turns, 0, 1);
  unlinkSync(inside);
  renameSync(away, inside);
}

/** A tool may have created a folder where the renamed one was. */
function putBack(): void {
  rmSync(inside, { recursive: true, force: true });
  if (existsSync(away)) renameSync(away, inside);
}

for (let step = turn; ; ) {
  try {
    step();
    step = turn;
  } catch {
    step = putBack;
  }
}
