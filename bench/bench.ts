import type { Row } from './row.ts';
import type { Services } from './services.ts';

/** What every case is given. */
export type Bench = Readonly<{
  services: Services;
  /** `small` shows within seconds that the case works; its numbers mean nothing. */
  scale: 'full' | 'small';
}>;

export type Case = (bench: Bench) => Promise<Row[]>;
