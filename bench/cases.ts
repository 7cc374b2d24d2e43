import type { Case } from './bench.ts';
import { benchDurable } from './chain/durable.ts';
import { benchScale } from './chain/scale.ts';
import { benchStorage } from './chain/storage.ts';
import { benchWide } from './chain/wide.ts';
import { benchConsole } from './console/console.ts';
import { benchContext } from './context.ts';
import { benchCancel, benchRecovery } from './faults.ts';
import { benchOverhead } from './overhead.ts';
import { benchPeers } from './peers.ts';
import { benchStream } from './stream/stream.ts';

/** The cases by name. Each returns one row per measurement. */
export const CASES: Readonly<Record<string, Case>> = {
  durable: benchDurable,
  peers: benchPeers,
  storage: benchStorage,
  wide: benchWide,
  scale: benchScale,
  context: benchContext,
  overhead: benchOverhead,
  stream: benchStream,
  recovery: benchRecovery,
  cancel: benchCancel,
  console: benchConsole,
};
