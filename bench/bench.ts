import type { Row } from './row.ts';
import type { Services } from './services.ts';

/** Input of every case. */
export type Bench = Readonly<{
  services: Services;
  /** `small` shows within seconds that the case works; its numbers mean nothing. */
  scale: 'full' | 'small';
}>;

export type Case = (bench: Bench) => Promise<Row[]>;
