// Preloaded into a process whose heap is examined. On SIGUSR2 it collects garbage and writes the remaining heap to the
// folder HEAP_FOLDER; the file gets its last name when it is complete.
import { renameSync } from 'node:fs';
import path from 'node:path';
import { setFlagsFromString, writeHeapSnapshot } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const folder = process.env['HEAP_FOLDER'] ?? '';

/** Resolves when all finalization callbacks have run after a collection: they may let go of further objects. */
async function collectAll(): Promise<void> {
  const { promise: told, resolve } = Promise.withResolvers<void>();
  // Registries are called one after the other: this one is the last.
  const registry = new FinalizationRegistry<null>(() => resolve());
  registry.register({}, null);
  // Objects made in this round of the event loop are kept until its end.
  await new Promise((next) => setImmediate(next));
  collectGarbage();
  await told;
  registry.unregister(registry);
}

process.on('SIGUSR2', async () => {
  for (let round = 0; round < 4; round++) await collectAll();
  renameSync(writeHeapSnapshot(path.join(folder, 'partial')), path.join(folder, 'heap.json'));
});
