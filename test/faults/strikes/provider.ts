import type { Fault as ProviderFault } from '../../../src/simulator/fault.ts';
import type { Fault } from '../fault.ts';
import type { Random } from '../random.ts';
import { repeatedly } from './repeatedly.ts';

const failing = (name: string, about: string, make: (random: Random) => ProviderFault): Fault => ({
  name: `provider-${name}`,
  about,
  isHarmless: true,
  strike: (world, random, signal) =>
    repeatedly({ random, signal, pauseMs: [20, 150] }, () => world.simulator.fault('faulty', make(random))),
});

export const PROVIDER: readonly Fault[] = [
  failing('429', 'the provider asks for pauses', (random) => ({
    kind: 'rate-limit',
    retryAfterMs: random.between(50, 400),
  })),
  failing('5xx', 'the provider fails', (random) => ({ kind: random.pick(['server-error', 'overloaded']) })),
  failing('stall', 'the provider falls silent in the middle of an answer', (random) => ({
    kind: 'stall',
    afterChunks: random.between(0, 6),
  })),
  failing('cut', 'the connection to the provider breaks in the middle of an answer', (random) => ({
    kind: 'cut',
    afterChunks: random.between(0, 6),
  })),
];
