// Preloaded into a process whose heap is looked at: on SIGUSR2 it collects garbage and writes what is left to the
// folder HEAP_FOLDER, under its last name when it is complete.
import { renameSync } from 'node:fs';
import path from 'node:path';
import { setFlagsFromString, writeHeapSnapshot } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const folder = process.env['HEAP_FOLDER'] ?? '';

/** Resolves when whoever waits to be told that something was collected has been told, and has let go of more. */
async function collectAll(): Promise<void> {
  const { promise: told, resolve } = Promise.withResolvers<void>();
  // Registries are told one after the other: this one is the last.
  const registry = new FinalizationRegistry<null>(() => resolve());
  registry.register({}, null);
  // What was made in this turn is kept until its end.
  await new Promise((next) => setImmediate(next));
  collectGarbage();
  await told;
  registry.unregister(registry);
}

process.on('SIGUSR2', async () => {
  for (let round = 0; round < 4; round++) await collectAll();
  renameSync(writeHeapSnapshot(path.join(folder, 'partial')), path.join(folder, 'heap.json'));
});
